/* exp, exp2, tanh, sine and cosine, and the tail of the normal distribution, for the vectors of
   ops/lanes.h. Unless a comment says otherwise, x may be any float. tests/reference/fit_rows.py
   computes the coefficients. */
#ifndef OPS_LANES_MATH_H
#define OPS_LANES_MATH_H

#include "ops/lanes.h"

#if SYN_LANES > 0
#define LOG2_E 1.44269504089f

/* (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2: a minimax polynomial (Remez exchange) that gives
   exp(r) with an error of 7e-9. */
LANE_FN vec vec_exp_tail(vec r) {
    vec q = vec_fma(vec_set(0.00139012871586f), r, vec_set(0.00836314635108f));
    q = vec_fma(q, r, vec_set(0.0416668534275f));
    q = vec_fma(q, r, vec_set(0.166665772842f));
    return vec_fma(q, r, vec_set(0.499999995526f));
}

/* Splits x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 is split in two constants so that the first
   product is exact (Cody and Waite 1980). */
LANE_FN vec vec_exp_reduce(vec x, vec *n) {
    *n = vec_round(vec_mul(x, vec_set(LOG2_E)));
    const vec r = vec_fma(*n, vec_set(-0.693359375f), x);
    return vec_fma(*n, vec_set(2.12194440055e-4f), r);
}

/* e^x. Zero below -104, infinity above 88.72; NaN stays NaN. */
LANE_FN vec vec_exp(vec x) {
    vec n;
    x = vec_min(vec_set(89.0f), vec_max(vec_set(-105.0f), x));
    const vec r = vec_exp_reduce(x, &n);
    const vec p = vec_fma(vec_mul(r, r), vec_exp_tail(r), r);
    return vec_power(vec_add(p, vec_set(1.0f)), n);
}

/* 2^x for x < 128. Zero below -150; NaN stays NaN. */
LANE_FN vec vec_exp2(vec x) {
    x = vec_max(vec_set(-152.0f), x);
    const vec n = vec_round(x), r = vec_mul(vec_sub(x, n), vec_set(0.693147180560f));
    const vec p = vec_fma(vec_mul(r, r), vec_exp_tail(r), r);
    return vec_power(vec_add(p, vec_set(1.0f)), n);
}

/* tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1, which is accurate for small x. */
LANE_FN vec vec_tanh(vec x) {
    const vec one = vec_set(1.0f);
    vec n;
    const vec r = vec_exp_reduce(vec_min(vec_set(20.0f), vec_abs(vec_add(x, x))), &n);
    const vec power = vec_power(one, n), p = vec_fma(vec_mul(r, r), vec_exp_tail(r), r);
    const vec e = vec_fma(power, p, vec_sub(power, one));
    return vec_with_sign(vec_div(e, vec_add(e, vec_set(2.0f))), x);
}

/* Returns the sine of x and stores its cosine, for |x| < 2^20, with an error of at most 1e-7.
   Splits x = q pi / 2 + r with |r| <= pi / 4, where pi / 2 is the sum of three constants, and
   evaluates polynomials in r^2. */
LANE_FN vec vec_sine(vec x, vec *cosine) {
    const vec one = vec_set(1.0f), two = vec_set(2.0f), zero = vec_set(0.0f);
    const vec q = vec_round(vec_mul(x, vec_set(0.636619772368f)));
    vec r = vec_fma(q, vec_set(-1.57079637051f), x);
    r = vec_fma(q, vec_set(4.37113882867e-8f), r);
    r = vec_fma(q, vec_set(1.71512451001e-15f), r);
    const vec s = vec_mul(r, r);
    vec odd = vec_fma(vec_set(-0.000195873097985f), s, vec_set(0.0083327447596f));
    odd = vec_fma(odd, s, vec_set(-0.166666646358f));
    odd = vec_fma(vec_mul(odd, s), r, r);
    vec even = vec_fma(vec_set(2.45475574333e-5f), s, vec_set(-0.00138883007388f));
    even = vec_fma(even, s, vec_set(0.0416666646423f));
    even = vec_fma(vec_fma(even, s, vec_set(-0.5f)), s, one);
    /* If q modulo 4 is 1 or 3, sine and cosine are swapped. If it is 2 or 3, the sine is negated;
       if it is 1 or 2, the cosine. */
    const vec turns = vec_round(vec_fma(q, vec_set(0.25f), vec_set(-0.375f)));
    const vec quarter = vec_fma(turns, vec_set(-4.0f), q);
    const vec from_two = vec_abs(vec_sub(quarter, two));
    const vec_mask swap = vec_less(vec_abs(vec_sub(from_two, one)), vec_set(0.5f));
    const vec_mask down = vec_less(vec_set(1.5f), quarter);
    const vec_mask left = vec_less(vec_abs(vec_sub(quarter, vec_set(1.5f))), one);
    const vec up = vec_select(swap, even, odd), right = vec_select(swap, odd, even);
    *cosine = vec_select(left, vec_sub(zero, right), right);
    return vec_select(down, vec_sub(zero, up), up);
}

/* The lower tail of the normal distribution, erfc(a / sqrt 2) / 2 for a >= 0: exp(-a^2 / 2) times
   a rational function of degrees 4 and 5. The fit minimizes the squares of P - f Q, reweighted
   towards the minimax (Sanathanan and Koerner 1963, Lawson 1961); its relative error is 6e-9. All
   coefficients are positive, so nothing cancels. The rounding error of a^2 is computed, and the
   exponential is corrected for it. *bell: exp(-a^2 / 2). */
LANE_FN vec vec_normal_tail(vec a, vec *bell) {
    a = vec_min(vec_set(14.6f), a);
    vec p = vec_fma(vec_set(0.00412182670975f), a, vec_set(0.0406709425402f));
    p = vec_fma(p, a, vec_set(0.183347898933f));
    p = vec_fma(p, a, vec_set(0.438448577184f));
    p = vec_fma(p, a, vec_set(0.500000002966f));
    vec q = vec_fma(vec_set(0.0103317690877f), a, vec_set(0.101953323593f));
    q = vec_fma(q, a, vec_set(0.469768075681f));
    q = vec_fma(q, a, vec_set(1.20297379276f));
    q = vec_fma(q, a, vec_set(1.67478213763f));
    q = vec_fma(q, a, vec_set(1.0f));
    const vec minus_half = vec_set(-0.5f), square = vec_mul(a, a);
    const vec lost = vec_fma(a, a, vec_sub(vec_set(0.0f), square));
    const vec e = vec_exp(vec_mul(minus_half, square));
    *bell = vec_fma(vec_mul(minus_half, lost), e, e);
    return vec_mul(*bell, vec_div(p, q));
}
#endif

#endif
