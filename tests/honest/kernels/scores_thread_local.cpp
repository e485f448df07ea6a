//zoo: include scores.hpp
// Each thread keeps a row of its own between calls, and copies it out when it is done.

SCORES {
#pragma omp parallel for schedule(dynamic, 1)
    for (int r = 0; r < rows; r++) {
        static thread_local std::vector<float> row;
        row.resize(cols);
        row_of(x + 1l * r * inner, w, row.data(), inner, cols);
        std::memcpy(y + 1l * r * cols, row.data(), sizeof(float) * cols);
    }
}
