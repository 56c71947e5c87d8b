#!/usr/bin/env python3
"""Prints the coefficients of ops/lanes_math.h. Needs mpmath.

(exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2: the polynomial of degree 4 with the least relative error,
by the Remez exchange algorithm.

(sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 on |r| <= pi / 4: polynomials of degree 2 in
r^2, by the same algorithm.

erfc(a / sqrt 2) / 2 * exp(a^2 / 2) on 0 <= a <= 14.6 (for larger a the product with exp(-a^2 / 2)
is zero in float): P / Q of degrees 4 and 5. Least squares of P - f Q, divided by the Q of the round
before (Sanathanan and Koerner 1963) and weighted where the error is large (Lawson 1961), at points
that are dense near 0.
"""
from mpmath import (cos, erfc, exp, fac, log, lu_solve, matrix, mp, mpf, nstr, pi, qr_solve,
                    sqrt)

mp.dps = 50


def value(coefficients, x):
    return sum(c * x**i for i, c in enumerate(coefficients))


def remez(f, low, high, degree):
    """Returns the polynomial whose relative error has degree + 2 extrema of equal size and
    alternating sign."""
    n = degree + 2
    chebyshev = lambda count: [low + (high - low) * (1 - cos(pi * i / (count - 1))) / 2
                               for i in range(count)]
    points, grid = chebyshev(n), chebyshev(2000)
    for _ in range(20):
        rows = [[x**j for j in range(degree + 1)] + [(-1) ** i * f(x)]
                for i, x in enumerate(points)]
        solution = lu_solve(matrix(rows), matrix([f(x) for x in points]))
        p = list(solution)[:-1]
        extrema = []
        for x in grid:
            error = value(p, x) / f(x) - 1
            if extrema and (error > 0) == (extrema[-1][1] > 0):
                extrema[-1] = max(extrema[-1], (x, error), key=lambda e: abs(e[1]))
            else:
                extrema.append((x, error))
        assert len(extrema) == n
        points = [x for x, _ in extrema]
        sizes = [abs(error) for _, error in extrema]
        if max(sizes) < mpf("1.0001") * min(sizes):
            return p, max(sizes)
    raise SystemExit("the exchange does not settle")


def rational(f, high, top, bottom, count=80):
    def points(m):  # Chebyshev points in 1 / (1 + 0.6 a)
        least = 1 / (1 + mpf("0.6") * high)
        t = [(1 + least) / 2 + (1 - least) / 2 * cos(pi * (i + mpf("0.5")) / m) for i in range(m)]
        return [(1 / x - 1) / mpf("0.6") for x in t]

    xs = points(count)
    fs = [f(x) for x in xs]
    scale, weight = [mpf(1)] * count, [mpf(1)] * count
    for round_ in range(12):
        rows, right = [], []
        for x, fx, s, w in zip(xs, fs, scale, weight):
            s = s * w / fx
            rows.append([s * x**j for j in range(top + 1)]
                        + [-s * fx * x**j for j in range(1, bottom + 1)])
            right.append(s * fx)
        solution = list(qr_solve(matrix(rows), matrix(right))[0])
        p, q = solution[: top + 1], [mpf(1)] + solution[top + 1 :]
        scale = [1 / value(q, x) for x in xs]
        errors = [abs(value(p, x) / value(q, x) / fx - 1) for x, fx in zip(xs, fs)]
        if round_ > 3:
            weight = [w * sqrt(e / max(errors) + mpf("1e-3")) for w, e in zip(weight, errors)]
            weight = [w / max(weight) for w in weight]
    return p, q, max(abs(value(p, x) / value(q, x) / f(x) - 1) for x in points(700))


def show(name, coefficients):
    print(name, " ".join(nstr(c, 12) for c in coefficients))


def series(first):
    """Returns a function of r^2: the terms of the sine (first = 3) or the cosine (first = 4) from
    r^first up, divided by r^first."""
    sign = -1 if first == 3 else 1
    return lambda s: sum(sign * (-s) ** k / fac(first + 2 * k) for k in range(20))


half = log(2) / 2 * mpf("1.0001")
p, error = remez(lambda r: (exp(r) - 1 - r) / r**2, -half, half, 4)
show("exp, from r^0:", p)
print("relative error of exp", nstr(error * half**2 / 2, 3))
for name, first in (("sine", 3), ("cosine", 4)):
    p, error = remez(series(first), mpf(0), (pi / 4 * mpf("1.0001")) ** 2, 2)
    show(f"{name}, from r^{first}:", p)
    print(f"error of the {name}", nstr(error * (pi / 4) ** first / fac(first), 3))
pieces = [mpf(0)] * 3
for i in range(3):  # each piece is a float, and their sum approaches pi / 2
    rest = pi / 2 - sum(pieces)
    exponent = int(mp.floor(log(abs(rest), 2)))
    pieces[i] = mp.nint(rest * mpf(2) ** (23 - exponent)) / mpf(2) ** (23 - exponent)
show("pi / 2:", pieces)
p, q, error = rational(lambda a: exp(a * a / 2) * erfc(a / sqrt(2)) / 2, mpf("14.6"), 4, 5)
show("normal tail, above:", p)
show("normal tail, below:", q)
print("relative error", nstr(error, 3))
