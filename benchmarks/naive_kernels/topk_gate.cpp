/*forewarp
format = 1
inputs = ["logits"]
outputs = ["weights", "indices"]

[let]
tokens = "logits.shape[0]"
experts = "logits.shape[1]"

[[launch]]
kernel = "topk_gate"
args = ["logits", "weights", "indices", "tokens", "experts", "init0"]
*/
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

extern "C" void topk_gate(const float* logits, float* weights, int64_t* indices, int tokens, int experts, int k) {
    for (int t = 0; t < tokens; t++) {
        std::vector<std::pair<double, int>> p(experts);
        double sum = 0.0, kept = 0.0;
        for (int e = 0; e < experts; e++) sum += std::exp(double(logits[int64_t(t) * experts + e]));
        for (int e = 0; e < experts; e++) p[e] = {std::exp(double(logits[int64_t(t) * experts + e])) / sum, e};
        std::sort(p.begin(), p.end(), [](auto a, auto b) { return a.first > b.first; });
        for (int j = 0; j < k; j++) kept += p[j].first;
        for (int j = 0; j < k; j++) {
            weights[int64_t(t) * k + j] = float(p[j].first / kept);
            indices[int64_t(t) * k + j] = p[j].second;
        }
    }
}
