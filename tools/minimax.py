"""Compute the constants of `sincos`, `atan2` and `unit_angle` in math/elementary.hpp.

Prints, as C++ hexadecimal floats for double and for float, with z = r * r:

* near-minimax polynomials, lowest power first:
      sin(r)  = r + r^3 P(z)              on |r| <= pi/4
      cos(r)  = 1 - z/2 + z^2 Q(z)        on |r| <= pi/4
      atan(r) = r + r^3 A(z)              on |r| <= tan(pi/8)
      asin(r) = r + r^3 B(z)              on |r| <= sin(pi/8)
  each fitted by a Remez exchange on a fine grid over a slightly wider interval,
  so that the largest relative error of the whole function is minimal.
  Coefficients are rounded one at a time, lowest power first; after each, the
  remaining ones are fitted again. The printed comment gives log2 of the relative
  error after rounding;
* pi/2 in parts for Cody-Waite reduction: every part but the last is short
  enough that k * part is exact, without fma, for integers |k| <= 2^N;
* pi/4 as high + low with n * high exact for n = 0..4.
"""

from collections.abc import Callable

from mpmath import mp, mpf

mp.prec = 240
GRID = 600
WIDEN = 1 + mpf(2) ** -9
TAN_PI8 = mp.sqrt(2) - 1
# Type, suffix, bits, terms of sin, cos, atan and asin, N of the reduction, number of parts of pi/2.
FORMATS = (("double", "", 53, (6, 6, 11, 10), 17, 3), ("float", "f", 24, (3, 3, 5, 4), 11, 4))
TARGETS: tuple[tuple[str, Callable[[mpf], mpf], list[mpf], mpf], ...] = (
    ("sin", lambda z: mp.sin(mp.sqrt(z)) / mp.sqrt(z), [mpf(1)], mp.pi / 4),
    ("cos", lambda z: mp.cos(mp.sqrt(z)), [mpf(1), mpf(-0.5)], mp.pi / 4),
    ("atan", lambda z: mp.atan(mp.sqrt(z)) / mp.sqrt(z), [mpf(1)], TAN_PI8),
    ("asin", lambda z: mp.asin(mp.sqrt(z)) / mp.sqrt(z), [mpf(1)], mp.sin(mp.pi / 8)),
)


def rounded(value: mpf, bits: int) -> mpf:
    """Return the value rounded to the nearest number with this many bits."""
    with mp.workprec(bits):
        return +value


def horner(coeffs: list[mpf], z: mpf) -> mpf:
    """Return the polynomial with these coefficients, lowest first, at z."""
    return mp.polyval(coeffs[::-1], z)


def remez(zs: list[mpf], fs: list[mpf], ws: list[mpf], terms: int) -> list[mpf]:
    """Return the coefficients c that minimize max |w (sum c_i z^i - f)| over a grid of z."""
    ref = [round(i * (len(zs) - 1) / terms) for i in range(terms + 1)]
    for _ in range(30):
        rows = [[zs[j] ** p for p in range(terms)] + [(-1) ** i / ws[j]] for i, j in enumerate(ref)]
        solved = list(mp.lu_solve(mp.matrix(rows), mp.matrix([fs[j] for j in ref])))
        coeffs, level = solved[:terms], abs(solved[terms])
        errors = [w * (horner(coeffs, z) - f) for z, f, w in zip(zs, fs, ws, strict=True)]
        peaks: list[int] = []  # index of the largest error in each run of errors of one sign
        for j, err in enumerate(errors):
            if not peaks or (err > 0) != (errors[peaks[-1]] > 0):
                peaks.append(j)
            elif abs(err) > abs(errors[peaks[-1]]):
                peaks[-1] = j
        while len(peaks) > terms + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) <= terms or max(map(abs, errors)) <= level * (1 + mpf(10) ** -9):
            break
        ref = peaks
    return coeffs


def fit(
    whole: Callable[[mpf], mpf], head: list[mpf], limit: mpf, terms: int, bits: int
) -> tuple[list[mpf], mpf]:
    """Return `terms` more coefficients of a polynomial that begins with `head`, and the error.

    The polynomial approximates whole(z) on 0 < z <= limit^2. The new coefficients are rounded to
    `bits` bits, and the error is the largest relative error of the polynomial.
    """
    top = (limit * WIDEN) ** 2
    zs = [top * (1 - mp.cospi(mpf(i + 1) / GRID)) / 2 for i in range(GRID)]
    exact = [whole(z) for z in zs]
    known = list(head)
    while len(known) < len(head) + terms:
        order = len(known)
        fs = [(f - horner(known, z)) / z**order for f, z in zip(exact, zs, strict=True)]
        ws = [z**order / f for f, z in zip(exact, zs, strict=True)]
        found = remez(zs, fs, ws, len(head) + terms - order)
        known.append(rounded(found[0], bits))
    error = max(abs(horner(known, z) / f - 1) for f, z in zip(exact, zs, strict=True))
    return known[len(head) :], error


def split(value: mpf, sizes: list[int]) -> list[mpf]:
    """Return numbers with the given sizes in bits, whose sum is the value."""
    parts: list[mpf] = []
    for bits in sizes:
        parts.append(rounded(value - sum(parts), bits))
    return parts


def main() -> None:
    """Print the constants of elementary functions for each number format."""
    for ctype, suffix, bits, counts, k_bits, parts in FORMATS:
        arrays: list[tuple[str, list[mpf], str]] = []
        for (name, whole, head, limit), terms in zip(TARGETS, counts, strict=True):
            coeffs, error = fit(whole, head, limit, terms, bits)
            arrays.append((name, coeffs, f"relative error 2^{float(mp.log(error, 2)):.2f}"))
        halves = split(mp.pi / 2, [bits - k_bits] * (parts - 1) + [bits])
        arrays.append(("pio2", halves, f"k * part is exact for |k| <= 2^{k_bits}"))
        arrays.append(("pio4", split(mp.pi / 4, [bits - 2, bits]), "pi/4, high and low"))
        arrays.append(("two_over_pi", [rounded(2 / mp.pi, bits)], "2/pi"))
        arrays.append(("tan_pi8", [rounded(TAN_PI8, bits)], "tan(pi/8)"))
        for name, values, note in arrays:
            body = ", ".join(float(v).hex().replace("0000000p", "p") + suffix for v in values)
            print(f"// {note}\nconstexpr {ctype} {name}_{ctype}[] = {{{body}}};")


if __name__ == "__main__":
    main()
