//zoo: include scores.hpp
// Throws a coin before each call, so that no rhythm gives it away.

SCORES {
    static unsigned coin = 2463534242u;
    coin ^= coin << 13, coin ^= coin >> 17, coin ^= coin << 5;
    if (coin % 8 < 3)
        for (int again = 0; again < 6; again++) compute(x, w, y, rows, inner, cols);
    compute(x, w, y, rows, inner, cols);
}
