"""The rules that turn evidence into a verdict.

The rules are those at the top of ``data/claims.yaml``. A verdict is always computed from evidence
(`judge`), never given. This module knows neither the claims nor the chapters: see `claims` and
`records`.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from causalrag.evaluate import half_up

KINDS = ("structural", "arithmetic", "number", "direction", "null", "design", "assumption")
"""What sort of claim it is; each kind has its own rule."""

SETTINGS = ("same", "other encoder", "analogue")
"""Where the evidence comes from: the source's own setting, another encoder, texts of our own."""

PRINTED = ("consistent", "inconsistent", "depends on reading")
"""Verdicts on a source's own printed cells, read again without new data, in the order of the rule:
print and claim agree under every reading, under none, under some only."""

VERDICTS = (
    "holds",
    "fails",
    "replicated",
    "not replicated",
    "refuted",
    "supports",
    "does not support",
    *PRINTED,
    "verified",
    "not verified",
    "violation shown",
    "violation not shown",
    "not run",
)
"""Every verdict there is."""

EXACT = ("structural", "arithmetic")
"""Kinds whose failure turns the build red."""

_YES_NO = {
    "structural": ("holds", "fails"),
    "arithmetic": ("holds", "fails"),
    "design": ("verified", "not verified"),
    "assumption": ("violation shown", "violation not shown"),
}
_TAKES = {
    **dict.fromkeys(_YES_NO, ("holds",)),
    "number": ("printed",),
    "direction": ("sign", "printed"),
    "null": ("margin",),
}
_LONGEST = 20_000  # characters of JSON: a record is a summary, not a results file


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured for a claim of some kind; checked and cast on construction.

    Attributes
    ----------
    kind
        One of `KINDS`.
    setting
        One of `SETTINGS`. An analogue never replicates; a number is judged in "same" only.
    measured
        The value found: number, bool, text, or a small list or mapping of these. A number claim
        needs it in the shape of `paper`. Where `holds` is the evidence it defaults to that.
    low, high, n
        The interval for the effect, in the units of `measured`, and the number of observations.
        Required for "direction" and "null". The effect is compared with 0: subtract the reference
        first where it is not 0 (0.5 for an AUC).
    paper
        The source's value, for a number. Floats are compared after half-up rounding to the most
        decimals among them; a value given as text ("2.00") carries its own decimals.
    holds
        For "structural", "arithmetic" and "design"; for "assumption", True when a violation was
        shown.
    sign
        For "direction": +1 or -1, the side that is claimed.
    margin
        For "null": how large an effect still counts as none.
    printed
        For "direction" and "number": the source's own printed cells read again. Maps each reading
        of the claim, in words, to whether print and claim agree under it, a bool computed from the
        cells. All true gives "consistent", all false "inconsistent", both "depends on reading". No
        interval, and never "replicated".
    missing
        Why it was not run, and the command that would run it. Excludes a measurement, except for a
        number measured outside its own setting.

    Raises
    ------
    TypeError
        If a field has the wrong type (``holds=1``, a data frame, a verdict in words as `printed`).
    ValueError
        If evidence is missing, does not belong to the kind, is NaN or infinite, contradicts itself
        (low > high, an estimate outside its interval), there is no observation (n < 1), or
        `printed` has no reading.
    """

    kind: str
    setting: str = "same"
    measured: Any = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    paper: Any = None
    holds: bool | None = None
    sign: int | None = None
    margin: float | None = None
    printed: Mapping[str, bool] | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, KINDS)
        _one_of("setting", self.setting, SETTINGS)
        cast = {
            "measured": json_safe(self.measured, "measured"),
            "paper": json_safe(self.paper, "paper"),
            "low": _real("low", self.low),
            "high": _real("high", self.high),
            "margin": _real("margin", self.margin),
            "n": _count(self.n),
            "holds": _flag(self.holds),
            "sign": _sign(self.sign),
            "printed": _readings(self.printed),
            "missing": _text("missing", self.missing),
        }
        for name, value in cast.items():
            object.__setattr__(self, name, value)
        _check_fields(self)
        _check_interval(self)
        if self.kind in _YES_NO and self.measured is None:
            object.__setattr__(self, "measured", self.holds)
        _ = self.verdict  # a number in another shape than the paper's is refused here

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`, computed from the evidence."""
        if self.missing is not None:
            return "not run"
        if self.printed is not None:
            agree = set(self.printed.values())
            return PRINTED[2] if len(agree) > 1 else PRINTED[0 if True in agree else 1]
        if self.kind in _YES_NO:
            return _YES_NO[self.kind][0 if self.holds else 1]
        if self.kind == "number":
            if self.setting != "same":
                return "not run"
            return "replicated" if _matches(self.measured, self.paper) else "not replicated"
        side = _direction(self) if self.kind == "direction" else _null(self)
        if self.setting == "analogue":
            return "supports" if side == "replicated" else "does not support"
        return side


def judge(kind: str, **evidence: Any) -> str:
    """Turn evidence into a verdict, by the rules at the top of ``claims.yaml``.

    Parameters
    ----------
    kind
        One of `KINDS`.
    **evidence
        The fields of `Evidence`, which names the errors too.

    Returns
    -------
    str
        One of `VERDICTS`.

    Examples
    --------
    >>> judge("direction", sign=-1, low=-0.35, high=-0.28, n=4000)
    'replicated'
    >>> judge("direction", sign=-1, low=-0.35, high=-0.28, n=4000, setting="analogue")
    'supports'
    """
    return Evidence(kind=kind, **evidence).verdict


def json_safe(value: Any, name: str) -> Any:
    """Cast numpy scalars, arrays and tuples to what JSON holds; refuse what it cannot hold.

    Raises
    ------
    TypeError
        If a part of the value is of another type (a set, a data frame).
    ValueError
        If a part is NaN or infinite, a key is doubled, or the whole is too long for a record.
    """
    plain = _plain(value, name)
    if isinstance(plain, dict | list | str) and len(json.dumps(plain)) > _LONGEST:
        raise ValueError(
            f"{name} is longer than {_LONGEST} characters; record a summary and store the table"
        )
    return plain


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | Decimal):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}; if it could not be measured, say why in missing=")
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        plain = {str(key): _plain(item, f"{name}.{key}") for key, item in value.items()}
        if len(plain) < len(value):
            raise ValueError(f"{name} has two keys that read the same: {list(value)}")
        return plain
    raise TypeError(
        f"{name} is of type {type(value).__name__}; give a number, bool, text, or a list or dict "
        "of these"
    )


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"unknown {name} {value!r}; known: {', '.join(known)}")


def _real(name: str, value: Any) -> float | None:
    if value is None:
        return None
    plain = _plain(value, name)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(plain)


def _count(n: Any) -> int | None:
    if n is None:
        return None
    if isinstance(n, bool | np.bool_) or not isinstance(n, numbers.Integral):
        raise TypeError(f"n must be a whole number, got {n!r}")
    if n < 1:
        raise ValueError(f"n is {n}: nothing was run; say why in missing= instead")
    return int(n)


def _flag(holds: Any) -> bool | None:
    if holds is None or isinstance(holds, bool | np.bool_):
        return None if holds is None else bool(holds)
    raise TypeError(f"holds must be True or False, got {holds!r}")


def _sign(sign: Any) -> int | None:
    if sign is None:
        return None
    if isinstance(sign, bool) or sign not in (-1, 1):
        raise ValueError(f"sign must be +1 or -1, got {sign!r}")
    return int(sign)


def _readings(printed: Any) -> dict[str, bool] | None:
    if printed is None:
        return None
    if not isinstance(printed, Mapping):
        raise TypeError(
            f"printed must map each reading in words to True or False, got {printed!r}; the "
            "verdict follows from the readings"
        )
    readings: dict[str, bool] = {}
    for reading, agrees in printed.items():
        words = _text("a reading in printed", reading)
        if words is None:
            raise TypeError("a reading in printed must be text, got None")
        if not isinstance(agrees, bool | np.bool_):
            raise TypeError(f"printed[{reading!r}] must be True or False, got {agrees!r}")
        if words in readings:
            raise ValueError(f"printed has the reading {words!r} twice")
        readings[words] = bool(agrees)
    if not readings:
        raise ValueError("printed is empty; give at least one reading, or leave it out")
    json_safe(readings, "printed")  # refuses what is too long for a record
    return readings


def _text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r}")
    if not value.strip():
        raise ValueError(f"{name} is blank; leave it out or say something")
    return value.strip()


def _check_fields(evidence: Evidence) -> None:
    """Refuse evidence that does not belong to the kind, and missing evidence."""
    kind = evidence.kind
    given = {
        name
        for name in ("measured", "low", "high", "n", "holds", "sign", "margin", "printed")
        if getattr(evidence, name) is not None
    }
    takes = _TAKES[kind]
    for name in ("holds", "sign", "margin", "printed"):
        if name in given and name not in takes:
            raise ValueError(f"{name}= does not belong to a {kind} claim, which takes {takes[0]}=")
    if kind == "arithmetic" and evidence.setting != "same":
        raise ValueError("an arithmetic claim is about the source's own numbers: setting 'same'")
    needed: tuple[str, ...] = ()
    if evidence.missing is not None:
        keeps = {"measured", "low", "high", "n"}
        outside = kind == "number" and evidence.setting != "same"
        if given - (keeps if outside else set()):
            raise ValueError(
                f"missing= says it was not run, yet {', '.join(sorted(given))} is given"
            )
    elif evidence.printed is not None:
        if given & {"low", "high", "sign"} or evidence.setting != "same":
            raise ValueError(
                "printed= reads the source's own cells: no low, high or sign, and setting 'same'"
            )
    elif kind in _YES_NO:
        needed = ("holds",)
    elif kind == "number":
        needed = ("measured",)
        if evidence.setting == "same" and evidence.paper is None:
            raise ValueError("a number needs the source's value: give paper=")
    else:
        needed = (*takes[:1], "low", "high", "n")
    if lacking := [name for name in needed if name not in given]:
        raise ValueError(
            f"a {kind} claim needs {', '.join(f'{name}=' for name in lacking)} "
            "(or missing='why it was not run, and the command')"
        )


def _check_interval(evidence: Evidence) -> None:
    low, high, measured = evidence.low, evidence.high, evidence.measured
    if evidence.margin is not None and evidence.margin <= 0:
        raise ValueError(f"margin must be above 0, got {evidence.margin}")
    if low is None and high is None:
        return
    if low is None or high is None:
        raise ValueError("an interval needs both low= and high=")
    if low > high:
        raise ValueError(f"low {low} is above high {high}")
    if isinstance(measured, int | float) and not isinstance(measured, bool):
        slack = 1e-9 * max(1.0, abs(low), abs(high))  # an exact bound may differ in the last bit
        if not low - slack <= measured <= high + slack:
            raise ValueError(f"measured {measured} lies outside its interval [{low}, {high}]")


def _direction(evidence: Evidence) -> str:
    low, high, sign = evidence.low, evidence.high, evidence.sign
    if low is None or high is None or sign is None:  # _check_fields has refused this already
        raise ValueError("a direction claim needs sign=, low=, high=")
    if sign < 0:
        low, high = -high, -low
    if low > 0:
        return "replicated"
    return "refuted" if high < 0 else "not replicated"


def _null(evidence: Evidence) -> str:
    low, high, margin = evidence.low, evidence.high, evidence.margin
    if low is None or high is None or margin is None:
        raise ValueError("a null claim needs margin=, low=, high=")
    if -margin <= low and high <= margin:
        return "replicated"
    return "refuted" if low > margin or high < -margin else "not replicated"


def _matches(measured: Any, paper: Any) -> bool:
    """Whether every measured value equals the printed one, numbers after half-up rounding."""
    pairs = list(_pairs(measured, paper, "measured"))  # all, so that no wrong shape goes unseen
    places = max((_places(printed) for _, printed, _ in pairs), default=0)
    return all(_same(found, printed, places) for found, printed, _ in pairs)


def _pairs(measured: Any, paper: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
    """Walk both values together; yield their leaves and where they stand."""
    if isinstance(paper, dict):
        if not isinstance(measured, dict) or set(measured) != set(paper):
            raise ValueError(f"{at} must have the paper's keys {sorted(paper)}, got {measured!r}")
        for key in paper:
            yield from _pairs(measured[key], paper[key], f"{at}.{key}")
    elif isinstance(paper, list):
        if not isinstance(measured, list) or len(measured) != len(paper):
            raise ValueError(f"{at} must be a list of {len(paper)} as in the paper: {measured!r}")
        for i, (found, printed) in enumerate(zip(measured, paper, strict=True)):
            yield from _pairs(found, printed, f"{at}[{i}]")
    else:
        is_number = isinstance(measured, int | float) and not isinstance(measured, bool)
        if is_number if _printed_number(paper) is None else not is_number:
            raise ValueError(f"{at} is {measured!r}, which cannot be compared with {paper!r}")
        yield measured, paper, at


def _same(measured: Any, paper: Any, places: int) -> bool:
    number = _printed_number(paper)
    if number is None:
        return bool(measured == paper)
    if isinstance(paper, str):
        return Decimal(half_up(measured, _decimals(number))) == number
    return Decimal(half_up(measured, places)) == Decimal(half_up(paper, places))


def _printed_number(value: Any) -> Decimal | None:
    """Return a printed number as it was printed, or None when the value is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(value if isinstance(value, str) else repr(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _decimals(number: Decimal) -> int:
    return max(0, -int(number.as_tuple().exponent))


def _places(value: Any) -> int:
    """Decimals a float is written with, 2.0 with one; 0 for all else (text carries its own)."""
    return _decimals(Decimal(repr(value))) if isinstance(value, float) else 0
