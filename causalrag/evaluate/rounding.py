"""Rounding as printed tables do it: half up, on the number that was meant.

No measure and no interval is computed here.
"""

from __future__ import annotations

import operator
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np


def half_up(x: float | Decimal, digits: int = 2) -> str:
    """Round half up, as printed tables do, without surprises from binary fractions.

    Parameters
    ----------
    x
        A finite number. A float is read to 15 significant digits, the number that a double is sure
        to hold: 2.675, stored as 2.67499999999999982, is a tie, and so is a mean a few units in the
        last place below one.
    digits
        Decimal places, at least 0.

    Returns
    -------
    str
        With exactly `digits` decimal places. A tie goes away from zero on both sides: 2.675 gives
        "2.68", -0.005 gives "-0.01". What rounds to zero has no sign: -0.004 gives "0.00".

    Raises
    ------
    ValueError
        For NaN or an infinite value, or a negative `digits`.
    TypeError
        For anything but a number.
    """
    if operator.index(digits) < 0:
        raise ValueError(f"digits must be at least 0, got {digits}")
    exact = _decimal(x)
    with localcontext() as context:
        context.prec = 400  # enough to hold the largest double with its decimals
        rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return f"{abs(rounded) if rounded.is_zero() else rounded:f}"


def _decimal(x: float | Decimal) -> Decimal:
    if isinstance(x, bool) or not isinstance(x, (int, float, np.integer, np.floating, Decimal)):
        raise TypeError(f"a number is needed, got {x!r}")
    if isinstance(x, (Decimal, int, np.integer)):
        exact = Decimal(int(x)) if isinstance(x, np.integer) else Decimal(x)
    elif isinstance(x, float):
        exact = Decimal(f"{x:.15g}")
    else:
        exact = Decimal(str(x))  # a shorter float prints the digits it holds
    if not exact.is_finite():
        raise ValueError(f"only finite numbers can be rounded, got {x}")
    return exact
