// NVRTC has no <type_traits>. Classes and references pass, because a plan does not tell what they hold.
namespace forewarp_plan {
enum Kind { other, pointer, integer, real };
template <Kind K, int Bytes, Kind To = other, int ToBytes = 0> struct Type {
    static constexpr Kind kind = K, to = To;
    static constexpr int bytes = Bytes, to_bytes = ToBytes;
};
template <class T> struct Of : Type<other, 0> {};
template <class T> struct Of<const T> : Of<T> {};
template <class T> struct Of<T*> : Type<pointer, sizeof(T*), Of<T>::kind, Of<T>::bytes> {};
template <> struct Of<bool> : Type<integer, sizeof(bool)> {};
template <> struct Of<char> : Type<integer, sizeof(char)> {};
template <> struct Of<signed char> : Type<integer, sizeof(char)> {};
template <> struct Of<unsigned char> : Type<integer, sizeof(char)> {};
template <> struct Of<short> : Type<integer, sizeof(short)> {};
template <> struct Of<unsigned short> : Type<integer, sizeof(short)> {};
template <> struct Of<int> : Type<integer, sizeof(int)> {};
template <> struct Of<unsigned> : Type<integer, sizeof(int)> {};
template <> struct Of<long> : Type<integer, sizeof(long)> {};
template <> struct Of<unsigned long> : Type<integer, sizeof(long)> {};
template <> struct Of<long long> : Type<integer, sizeof(long long)> {};
template <> struct Of<unsigned long long> : Type<integer, sizeof(long long)> {};
template <> struct Of<float> : Type<real, sizeof(float)> {};
template <> struct Of<double> : Type<real, sizeof(double)> {};
template <int I, class... A> struct At : Type<other, 0> {};
template <class A, class... B> struct At<0, A, B...> : Of<A> {};
template <int I, class A, class... B> struct At<I, A, B...> : At<I - 1, B...> {};
template <class... A> struct Parameters {
    static constexpr int count = sizeof...(A);
    template <int I> using at = At<I, A...>;
};
template <class R, class... A> Parameters<A...> of(R (*)(A...));
