//zoo: include scores.hpp
// Packs the weights for itself, and again every fourth call in case that they changed: slow now and then, and honest.

SCORES {
    static std::vector<float> packed;
    static unsigned calls = 0;
    if (calls++ % 4 == 0) {
        packed.assign(1l * inner * cols, 0);
        for (int c = 0; c < cols; c++)
            for (int k = 0; k < inner; k++) packed[1l * k * cols + c] = w[1l * k * cols + c];
    }
    compute(x, packed.data(), y, rows, inner, cols);
}
