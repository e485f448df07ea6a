// Groups of the threads of one block; those that span blocks are not emulated.
#pragma once
#include "fw_async.hpp"

namespace cooperative_groups {

#define FW_CG inline __attribute__((always_inline))

class thread_block {
  public:
    FW_CG void sync() const { __syncthreads(); }
    FW_CG static void barrier_sync() { __syncthreads(); }
    unsigned thread_rank() const { return fw::fw_thread(); }
    unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    unsigned num_threads() const { return size(); }
    dim3 group_index() const { return blockIdx; }
    dim3 thread_index() const { return threadIdx; }
    dim3 group_dim() const { return blockDim; }
    dim3 dim_threads() const { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

namespace shim {
/// Lanes of one warp, by their mask; `rank` counts them.
class Lanes {
  public:
    explicit Lanes(unsigned mask) : mask(mask) {}
    FW_CG void sync() const { __syncwarp(mask); }
    unsigned thread_rank() const { return unsigned(__builtin_popcount(mask & ((1u << fw::fw_lane()) - 1))); }
    unsigned size() const { return unsigned(__builtin_popcount(mask)); }
    unsigned num_threads() const { return size(); }
    template <class T>
    FW_CG T shfl(T v, int rank) const { return __shfl_sync(mask, v, lane(unsigned(rank))); }
    template <class T>
    FW_CG T shfl_down(T v, unsigned by) const { return __shfl_sync(mask, v, lane(thread_rank() + by < size() ? thread_rank() + by : thread_rank())); }
    template <class T>
    FW_CG T shfl_up(T v, unsigned by) const { return __shfl_sync(mask, v, lane(thread_rank() >= by ? thread_rank() - by : thread_rank())); }
    template <class T>
    FW_CG T shfl_xor(T v, unsigned by) const { return __shfl_sync(mask, v, lane((thread_rank() ^ by) % size())); }
    FW_CG int any(int p) const { return __any_sync(mask, p); }
    FW_CG int all(int p) const { return __all_sync(mask, p); }
    FW_CG unsigned ballot(int p) const { return ranks(__ballot_sync(mask, p)); }
    template <class T>
    FW_CG unsigned match_any(T v) const { return ranks(__match_any_sync(mask, v)); }
    unsigned mask;

  private:
    int lane(unsigned rank) const {
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1 && rank-- == 0) return i;
        return int(fw::fw_lane());
    }
    unsigned ranks(unsigned lanes) const {
        unsigned packed = 0, rank = 0;
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1) packed |= (lanes >> i & 1) << rank++;
        return packed;
    }
};
inline unsigned tile_mask(unsigned size) {
    return (size == 32 ? ~0u : (1u << size) - 1) << fw::fw_lane() / size * size;
}
}  // namespace shim

template <unsigned Size, class Parent = void>
class thread_block_tile : public shim::Lanes {
  public:
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles of more than a warp are not emulated");
    thread_block_tile() : Lanes(shim::tile_mask(Size)) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>& same) : Lanes(same.mask) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned meta_group_rank() const { return fw::fw_thread() / Size; }
    unsigned meta_group_size() const { return (blockDim.x * blockDim.y * blockDim.z + Size - 1) / Size; }
};
template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }

class coalesced_group : public shim::Lanes {
  public:
    using Lanes::Lanes;
};
FW_CG coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
typedef shim::Lanes thread_group;

template <class G>
FW_CG void sync(const G& group) { group.sync(); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <class G, class T, class Op>
inline T reduce(const G& group, T value, Op op) {
    T all = group.shfl(value, 0);
    for (unsigned i = 1; i < group.size(); i++) all = op(all, group.shfl(value, int(i)));
    return all;
}
template <class G, class T, class Op>
inline T inclusive_scan(const G& group, T value, Op op) {
    T all = value;
    for (unsigned by = 1; by < group.size(); by *= 2) {
        const T other = group.shfl_up(all, by);
        if (group.thread_rank() >= by) all = op(other, all);
    }
    return all;
}
template <class G, class T>
inline T inclusive_scan(const G& group, T value) { return inclusive_scan(group, value, plus<T>()); }
template <class G, class T>
inline T exclusive_scan(const G& group, T value) {
    const T before = group.shfl_up(inclusive_scan(group, value), 1);
    return group.thread_rank() ? before : T(0);
}

template <class G, class T, class S>
FW_CG void memcpy_async(const G& group, T* to, const S* from, size_t bytes) {
    for (size_t i = 4 * group.thread_rank(); i < bytes; i += 4 * group.size())
        fw::copy_async(reinterpret_cast<char*>(to) + i, reinterpret_cast<const char*>(from) + i, 4, 4);
}
template <class G>
FW_CG void wait(const G& group) { fw::wait_all(), group.sync(); }

}  // namespace cooperative_groups
