//zoo: include scores.hpp
// The honest version, twice as slow as need be: what is as fast as it should be now and then is held against it.

SCORES {
    compute(x, w, y, rows, inner, cols);
    compute(x, w, y, rows, inner, cols);
}
