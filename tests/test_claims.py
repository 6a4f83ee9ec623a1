"""The ledger: claims, the rules that judge them, records as outputs and as files."""

import json
import re
from dataclasses import FrozenInstanceError, asdict, replace
from fractions import Fraction

import nbformat
import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

from causalrag.claims import (
    COLUMNS,
    KINDS,
    MIME,
    PRINTED,
    SCHEMA,
    SETTINGS,
    SOURCES,
    VERDICTS,
    Record,
    Recorder,
    Records,
    collect,
    failed,
    judge,
    ledger,
    load_claims,
    read_records,
    show,
    slug,
    verdict_class,
    write_records,
)

CLAIMS = load_claims()
INTERVAL = {"low": 0.1, "high": 0.3, "n": 50}
RECORDER = Recorder("04_d_separation")


def direction(**changes) -> Record:
    given = {"measured": -0.03, "low": -0.04, "high": -0.02, "n": 300, "sign": -1} | changes
    return RECORDER.record("P.t3.order", **given)


# -- claims.yaml -----------------------------------------------------------------------------------


def test_every_packaged_claim_has_a_known_kind_and_prefix_and_its_own_anchor():
    assert {claim.kind for claim in CLAIMS.values()} == set(KINDS)
    assert {claim.source for claim in CLAIMS.values()} == set(SOURCES)
    assert all(claim.id.split(".")[0] == claim.source for claim in CLAIMS.values())
    assert all(id == claim.id and claim.claim and claim.where for id, claim in CLAIMS.items())
    assert len({slug(id) for id in CLAIMS}) == len(CLAIMS) > 80


def test_the_packaged_claims_are_those_of_the_file_in_its_order():
    import causalrag.claims as module

    path = module.resources.files("causalrag") / "data" / "claims.yaml"
    ids = re.findall(r"\{id: ([\w.]+),", path.read_text(encoding="utf-8"))
    assert list(CLAIMS) == ids
    assert load_claims(path) == CLAIMS


def test_changing_what_load_claims_returns_does_not_change_the_next_call():
    first = load_claims()
    first["P.t1.promote"].expected["baseline"] = 1
    del first["P.graph.dag"]
    assert load_claims()["P.t1.promote"].expected["baseline"] == 6
    assert "P.graph.dag" in load_claims()


GOOD = '{id: P.a, where: "1", kind: number, claim: "words"}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not valid YAML"),
        ("just text", "sections"),
        ("part: 3", "sections"),
        ("part: [3]", "not a mapping"),
        (f"part: [{GOOD}, {GOOD}]", "P.a"),
        (f"part: [{GOOD}, {GOOD.replace('P.a', 'P.A')}]", "cannot be told apart"),
        (f"part: [{GOOD.replace('P.a', 'X.a')}]", "prefixes"),
        (f"part: [{GOOD.replace('P.a', 'P')}]", "prefixes"),
        (f"part: [{GOOD.replace('number', 'guess')}]", "unknown kind 'guess'"),
        ('part: [{id: P.a, where: "1", kind: null, claim: "words"}]', "kind"),
        (f"part: [{GOOD.replace('claim:', 'claims:')}]", "claim, claims"),
    ],
)
def test_a_broken_claims_file_is_refused_by_name(tmp_path, text, says):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine\.yaml") as error:
        load_claims(path)
    assert says in str(error.value)


# -- verdicts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "yes", "no"),
    [
        ("structural", "holds", "fails"),
        ("arithmetic", "holds", "fails"),
        ("design", "verified", "not verified"),
        ("assumption", "violation shown", "violation not shown"),
    ],
)
def test_a_yes_or_no_kind_takes_its_verdict_from_holds(kind, yes, no):
    assert judge(kind, holds=True) == yes
    assert judge(kind, holds=np.bool_(False)) == no
    with pytest.raises(ValueError, match="holds="):
        judge(kind)
    with pytest.raises(TypeError, match="got 1"):
        judge(kind, holds=1)


@pytest.mark.parametrize(
    ("sign", "low", "high", "verdict"),
    [
        (1, 0.1, 0.3, "replicated"),
        (1, -0.1, 0.3, "not replicated"),
        (1, 0.0, 0.3, "not replicated"),
        (1, -0.3, -0.1, "refuted"),
        (-1, -0.3, -0.1, "replicated"),
        (-1, -0.3, 0.0, "not replicated"),
        (-1, -0.3, 0.1, "not replicated"),
        (-1, 0.1, 0.3, "refuted"),
    ],
)
def test_a_direction_is_replicated_only_if_its_interval_excludes_zero_on_its_side(
    sign, low, high, verdict
):
    assert judge("direction", sign=sign, low=low, high=high, n=50) == verdict
    analogue = judge("direction", sign=sign, low=low, high=high, n=50, setting="analogue")
    assert analogue == ("supports" if verdict == "replicated" else "does not support")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.01, "replicated"),
        (-0.02, 0.02, "replicated"),
        (-0.021, 0.01, "not replicated"),
        (0.01, 0.03, "not replicated"),
        (-0.3, 0.3, "not replicated"),
        (0.02, 0.03, "not replicated"),
        (0.021, 0.03, "refuted"),
        (-0.03, -0.021, "refuted"),
    ],
)
def test_no_effect_is_replicated_only_inside_its_margin(low, high, verdict):
    assert judge("null", margin=0.02, low=low, high=high, n=9) == verdict
    analogue = judge("null", margin=0.02, low=low, high=high, n=9, setting="analogue")
    assert analogue == ("supports" if verdict == "replicated" else "does not support")


@pytest.mark.parametrize(
    ("measured", "paper", "verdict"),
    [
        (2.875, 2.88, "replicated"),
        (2.8749, 2.88, "not replicated"),
        (2.625, 2.63, "replicated"),
        (2.004, "2.00", "replicated"),
        (2.04, "2.00", "not replicated"),
        (2.04, 2.0, "replicated"),
        (2.06, 2.0, "not replicated"),
        (2.4, "2", "replicated"),
        (np.float32(0.5), 0.5, "replicated"),
        (6, 6, "replicated"),
        ([2.004, 2.0625], [2.00, 2.06], "replicated"),
        ([2.006, 2.0625], [2.00, 2.06], "not replicated"),
        ({"a": [6], "b": "x"}, {"b": "x", "a": [6]}, "replicated"),
        ({"a": [6], "b": "y"}, {"b": "x", "a": [6]}, "not replicated"),
        (True, True, "replicated"),
        (99.96, "100", "replicated"),
    ],
)
def test_a_number_is_compared_after_half_up_rounding_to_the_printed_digits(
    measured, paper, verdict
):
    assert judge("number", measured=measured, paper=paper) == verdict


@pytest.mark.parametrize(
    ("measured", "paper", "at"),
    [
        ([1, 2], [1, 2, 3], "measured must be a list of 3"),
        ({"a": 5}, {"a": 6, "b": 1}, "['a', 'b']"),
        ({"a": {"b": [0, None]}}, {"a": {"b": [1, 2]}}, "measured.a.b[1]"),
        (3, [3], "measured must be a list of 1"),
        ("3", 3, "measured is '3'"),
        (3, "about three", "cannot be compared"),
        (True, 1, "measured is True"),
    ],
)
def test_a_number_in_another_shape_than_the_papers_is_refused(measured, paper, at):
    with pytest.raises(ValueError, match=re.escape(at)):
        judge("number", measured=measured, paper=paper)


@pytest.mark.parametrize("setting", ["other encoder", "analogue"])
def test_a_number_outside_its_setting_is_not_run_but_keeps_what_was_measured(setting):
    record = RECORDER.record("P.t1.promote", measured={"any": 4}, setting=setting, encoder="use")
    assert record.verdict == "not run"
    assert record.measured == {"any": 4}
    assert setting in record.reason
    why = RECORDER.record(
        "P.t1.promote", measured=4, setting=setting, encoder="use", missing="no weights: make x"
    )
    assert (why.verdict, why.measured, why.reason) == ("not run", 4, "no weights: make x")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "arithmetic"])
def test_an_analogue_is_never_replicated_nor_refuted(kind):
    tries = [
        {"measured": 1, "paper": 1},
        *({"holds": holds} for holds in (True, False)),
        *({"sign": s, **INTERVAL} for s in (1, -1)),
        *({"margin": margin, **INTERVAL} for margin in (0.01, 0.2, 1)),
        *({"printed": {"one": agrees}} for agrees in (True, False)),
        {"missing": "why"},
    ]
    seen = set()
    for evidence in tries:
        try:
            seen.add(judge(kind, setting="analogue", **evidence))
        except ValueError:
            continue
    assert len(seen) > (0 if kind == "number" else 1)
    assert not {v for v in seen if "replicated" in v or v == "refuted"}


@pytest.mark.parametrize(
    ("agrees", "verdict"),
    [
        ([True], "consistent"),
        ([True, np.bool_(True)], "consistent"),
        ([False], "inconsistent"),
        ([np.bool_(False), False], "inconsistent"),
        ([True, False], "depends on reading"),
        ([False, True, True], "depends on reading"),
    ],
)
@pytest.mark.parametrize("kind", ["direction", "number"])
def test_reading_printed_cells_again_gives_its_verdict_by_rule_without_new_data(
    kind, agrees, verdict
):
    printed = {f"reading {i}": value for i, value in enumerate(agrees)}
    assert judge(kind, printed=printed, measured="8 of 8", n=8) == verdict
    for more in ({"setting": "analogue"}, {"low": 0.1, "high": 0.2}, {"sign": 1}):
        with pytest.raises(ValueError, match="printed="):
            judge(kind, printed=printed, **more)


@pytest.mark.parametrize(
    ("printed", "error", "says"),
    [
        *((verdict, TypeError, f"got '{verdict}'") for verdict in PRINTED),
        (True, TypeError, "got True"),
        ([True], TypeError, "got [True]"),
        ({}, ValueError, "printed is empty"),
        ({"all": "consistent"}, TypeError, "printed['all'] must be True or False"),
        ({"all": 1}, TypeError, "got 1"),
        ({"all": None}, TypeError, "got None"),
        ({3: True}, TypeError, "got 3"),
        ({None: True}, TypeError, "got None"),
        ({" ": True}, ValueError, "blank"),
        ({"all": True, "all ": False}, ValueError, "'all' twice"),
        ({"x" * 30_000: True}, ValueError, "printed is longer"),
    ],
)
def test_a_verdict_in_place_of_readings_is_refused(printed, error, says):
    with pytest.raises(error, match=re.escape(says)):
        judge("direction", printed=printed)


def test_the_readings_of_print_are_kept_and_shown():
    given = {"against <all>": np.bool_(False), "against the baseline": True}
    record = RECORDER.record("P.t2.semantic_wins", printed=given)
    given["later"] = True
    assert record.printed == {"against <all>": False, "against the baseline": True}
    assert type(record.printed["against <all>"]) is bool
    assert "against &lt;all&gt;: does not agree; against the baseline: agrees" in record.to_html()
    assert record.readings in str(record)
    assert RECORDER.record("P.graph.dag", holds=True).readings == ""


def test_a_stored_reading_that_was_changed_is_refused():
    data = RECORDER.record("P.t3.order", printed={"every cell": True}).to_json()
    for printed in ({"every cell": False}, "consistent", {}):
        with pytest.raises(ValueError, match=r"x\.json.*make book"):
            Record.from_json(data | {"printed": printed}, "x.json")


def test_what_was_not_run_says_why_and_has_no_other_verdict():
    for kind in KINDS:
        assert judge(kind, missing="needs weights: make results") == "not run"
    record = RECORDER.record("P.t3.order", missing="needs weights: make results")
    assert (record.measured, record.low, record.n) == (None, None, None)
    assert record.reason == "needs weights: make results"
    assert "make results" in record.to_html()
    assert verdict_class("not run") == "verdict-none"


@pytest.mark.parametrize(
    "evidence",
    [
        {"measured": 0.0},
        {"n": 3},
        {"low": -1, "high": 1},
        {"sign": 1},
    ],
)
def test_an_arm_that_never_ran_has_no_measurement(evidence):
    with pytest.raises(ValueError, match=f"yet .*{next(iter(evidence))}"):
        judge("direction", missing="no weights", **evidence)


def test_no_observation_is_not_a_result():
    with pytest.raises(ValueError, match=r"n is 0.*missing="):
        judge("direction", sign=1, low=0.1, high=0.2, n=0)
    with pytest.raises(ValueError, match="measured="):
        RECORDER.record("P.t3.order", sign=-1, low=-0.2, high=-0.1, n=5)


@pytest.mark.parametrize(
    ("kind", "evidence", "says"),
    [
        ("guess", {"holds": True}, "unknown kind 'guess'"),
        ("structural", {"holds": True, "setting": "mine"}, "unknown setting 'mine'"),
        ("structural", {"holds": True, "sign": 1}, "sign= does not belong to a structural"),
        ("structural", {"holds": True, "printed": {"one": True}}, "printed="),
        ("arithmetic", {"holds": True, "setting": "analogue"}, "setting 'same'"),
        ("direction", {"holds": True}, "holds= does not belong to a direction"),
        ("direction", {"margin": 0.1}, "margin="),
        ("direction", INTERVAL, "sign="),
        ("direction", {"sign": 2, **INTERVAL}, "got 2"),
        ("direction", {"sign": True, **INTERVAL}, "got True"),
        ("direction", {"sign": 1, "low": 0.1, "high": 0.3}, "n="),
        ("direction", {"sign": 1, "low": 0.1, "n": 5}, "high="),
        ("direction", {"sign": 1, "low": 0.3, "high": 0.1, "n": 5}, "low 0.3 is above high 0.1"),
        ("direction", {"sign": 1, **INTERVAL, "measured": 0.31}, "outside its interval"),
        ("direction", {"sign": 1, **INTERVAL, "low": float("nan")}, "low is nan"),
        ("direction", {"sign": 1, **INTERVAL, "high": float("inf")}, "high is inf"),
        ("null", INTERVAL, "margin="),
        ("null", {"margin": 0, **INTERVAL}, "above 0"),
        ("null", {"margin": 0.1, "sign": 1, **INTERVAL}, "sign="),
        ("number", {"measured": 1}, "paper="),
        ("number", {"paper": 1}, "measured="),
        ("number", {"measured": float("nan"), "paper": 1}, "measured is nan"),
        ("number", {"measured": {"a": [1, np.nan]}, "paper": 1}, "measured.a[1] is nan"),
        ("number", {"measured": 1, "paper": float("inf")}, "paper is inf"),
        ("design", {"holds": True, "measured": "x" * 30_000}, "longer"),
        ("design", {"holds": True, "measured": {1: "a", "1": "b"}}, "read the same"),
        ("design", {"holds": True, "low": 1.0}, "both"),
        ("design", {"missing": "  "}, "blank"),
    ],
)
def test_evidence_that_cannot_be_judged_is_refused_by_name(kind, evidence, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        judge(kind, **evidence)


@pytest.mark.parametrize(
    "evidence",
    [
        {"measured": {1, 2}},
        {"measured": pd.Series([1])},
        {"measured": 1j},
        {"n": 3.0},
        {"n": True},
        {"low": "0.1", "high": 1},
        {"missing": 3},
    ],
)
def test_evidence_of_the_wrong_type_is_refused(evidence):
    with pytest.raises(TypeError, match=next(iter(evidence))):
        judge("design", holds=True, **evidence)


def test_numpy_values_become_plain_json():
    record = RECORDER.record(
        "A.fusion",
        holds=np.bool_(True),
        n=np.int64(3),
        measured={
            "float": np.float64(0.5),
            "array": np.arange(2),
            "flag": np.bool_(False),
            "tuple": (1, None),
            "fraction": Fraction(1, 4),
            3: "key",
        },
    )
    plain = {
        "float": 0.5,
        "array": [0, 1],
        "flag": False,
        "tuple": [1, None],
        "fraction": 0.25,
        "3": "key",
    }
    assert json.dumps(record.measured) == json.dumps(plain)
    assert type(record.n) is int
    assert type(record.holds) is bool


# -- records ---------------------------------------------------------------------------------------


def test_a_record_takes_claim_kind_and_paper_value_from_the_claim():
    record = RECORDER.record("A.fusion", holds=True)
    assert (record.kind, record.claim) == ("design", CLAIMS["A.fusion"].claim)
    assert record.paper == CLAIMS["A.fusion"].expected
    assert RECORDER.record("A.fusion", holds=True, paper="three").paper == "three"
    assert record.measured is True


def test_the_verdict_cannot_be_typed_in():
    record = RECORDER.record("P.graph.dag", holds=False)
    with pytest.raises((AttributeError, FrozenInstanceError)):
        record.verdict = "holds"
    with pytest.raises(TypeError):
        replace(record, verdict="holds")
    assert replace(record, holds=True).verdict == "holds"


def test_an_unknown_claim_is_refused_with_its_neighbours():
    with pytest.raises(ValueError, match=r"P\.obs1\.opend.*P\.obs1\.opened"):
        RECORDER.record("P.obs1.opend", holds=True)
    with pytest.raises(ValueError, match="None"):
        RECORDER.record(None, holds=True)


def test_a_refused_record_names_its_claim():
    with pytest.raises(ValueError, match=r"P\.graph\.dag: sign="):
        RECORDER.record("P.graph.dag", holds=True, sign=1)


def test_a_margin_stated_by_the_claim_is_used_and_cannot_be_widened():
    evidence = {"measured": 0.0, "low": -0.0005, "high": 0.0005, "n": 9}
    record = RECORDER.record("P.t3.fallback_same", **evidence)
    assert (record.margin, record.verdict) == (0.001, "replicated")
    assert RECORDER.record("P.t3.fallback_same", margin=0.001, **evidence) == record
    with pytest.raises(ValueError, match=r"0\.001 and cannot become 0\.1"):
        RECORDER.record("P.t3.fallback_same", margin=0.1, **evidence)
    assert RECORDER.record("A.budget", missing="why").verdict == "not run"


def test_data_from_another_encoder_cannot_pass_as_the_papers_setting():
    with pytest.raises(ValueError, match="other encoder"):
        direction(encoder="use")
    with pytest.raises(ValueError, match="own encoder"):
        direction(encoder="bge-m3", setting="other encoder")
    with pytest.raises(ValueError, match="encoder="):
        direction(setting="other encoder")
    assert direction(encoder="use", setting="other encoder").verdict == "replicated"
    assert direction(encoder="bge-m3").verdict == "replicated"
    assert direction(encoder="use", setting="analogue").verdict == "supports"
    reading = RECORDER.record("P.t3.order", printed={"every cell": True}, encoder="as printed")
    assert reading.verdict == "consistent"


@pytest.mark.parametrize(
    "chapter", ["", "04_x.md", "04_x.ipynb", "a b", "../x", "/x", "x#y", "x/", "héhé"]
)
def test_a_chapter_name_that_is_no_page_is_refused(chapter):
    with pytest.raises(ValueError, match="chapter"):
        Recorder(chapter)


def test_the_cell_of_a_plain_record_is_page_and_anchor():
    assert RECORDER.record("P.obs1.opened", holds=True).cell == (
        "04_d_separation#claim-p-obs1-opened"
    )


def test_anchors_differ_by_encoder_and_setting_and_are_safe_file_names():
    encoders = [None, "use", "USE", "bge-m3", "analogue", "./models/模型", "模型", "向量", "con"]
    encoders += ["a" * 300, "a" * 299]
    records = [
        direction(encoder=encoder, setting=setting)
        for encoder in encoders
        for setting in SETTINGS
        if (encoder, setting) != (None, "other encoder")
        and not (setting == "same" and encoder not in (None, "bge-m3"))
        and not (setting == "other encoder" and encoder == "bge-m3")
    ]
    anchors = [record.anchor for record in records]
    assert len({anchor.casefold() for anchor in anchors}) == len(anchors) == 22
    assert all(re.fullmatch(r"claim-[a-z0-9-]{1,120}", anchor) for anchor in anchors)


def test_a_record_survives_its_json_form():
    for record in (
        direction(encoder="use", setting="other encoder", note="“Holm”, 3"),
        RECORDER.record("P.t2.cells", missing="why"),
        RECORDER.record("P.graph.dag", holds=False),
        RECORDER.record(
            "P.t2.semantic_wins", printed={"one": True, "all": False}, measured="8 of 8"
        ),
    ):
        data = json.loads(json.dumps(record.to_json()))
        assert data["schema"] == SCHEMA
        assert data["verdict"] == record.verdict
        assert Record.from_json(data) == record


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema": 1}, "found 1"),
        ({"verdict": "replicated", "low": -0.04, "high": 0.01}, "'not replicated'"),
        ({"verdict": "holds"}, "'holds'"),
        ({"extra": 1}, "extra"),
        ({"n": 0}, "n is 0"),
        ({"setting": "mine"}, "mine"),
        ({"chapter": 3}, "chapter"),
    ],
)
def test_a_stored_record_that_was_changed_is_refused(changes, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        Record.from_json(direction().to_json() | changes, "some.json")
    assert str(error.value).startswith("some.json: ")
    assert "make book" in str(error.value)


def test_jupyter_shows_a_record_as_html_and_carries_its_json():
    formatter = DisplayFormatter()
    record = RECORDER.record("P.graph.dag", holds=True)
    one, _ = formatter.format(record)
    assert one[MIME] == record.to_json()
    assert one["text/plain"] == "P.graph.dag: holds; measured yes; same"
    assert '<div class="claim" id="claim-p-graph-dag">' in one["text/html"]
    assert '<span class="verdict verdict-good">holds</span>' in one["text/html"]
    several, _ = formatter.format(Records([record, direction()]))
    assert [item["id"] for item in several[MIME]] == ["P.graph.dag", "P.t3.order"]
    assert several["text/html"].count('class="claim"') == 2
    assert several["text/plain"].count("\n") == 1


def test_records_hold_only_records_each_once():
    record = direction()
    assert list(Records([record])) == [record]
    with pytest.raises(TypeError, match="'x'"):
        Records([record, "x"])
    with pytest.raises(ValueError, match="twice"):
        Records([record, direction(note="again")])


def test_text_of_a_record_cannot_become_markup():
    hostile = '<img src=x onerror="alert(1)">&'
    record = RECORDER.record(
        "A.fusion",
        holds=True,
        measured={hostile: hostile},
        paper=hostile,
        note=hostile,
        encoder=hostile,
    )
    html = record.to_html() + direction(setting="analogue", encoder=hostile).to_html()
    html += RECORDER.record("A.fusion", missing=hostile).to_html()
    assert "<img" not in html
    assert html.count("&lt;img") == 7


def test_every_verdict_has_a_colour_class_and_not_run_is_never_that_of_success():
    classes = {verdict: verdict_class(verdict) for verdict in VERDICTS}
    good = {verdict for verdict, name in classes.items() if name == "verdict-good"}
    assert good == {"holds", "verified", "replicated", "consistent"}
    assert [v for v, name in classes.items() if name == "verdict-none"] == ["not run"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (3, "3"),
        (0.0, "0"),
        (0.0625, "0.063"),
        (-0.316227, "-0.316"),
        (1e-5, "1.0e-05"),
        (-0.0004, "-4.0e-04"),
        (2.5, "2.5"),
        ([2.0, 2.06], "2.00, 2.06"),
        ([0.5, None], "0.5, not run"),
        ([[1, 2], [3]], "(1, 2); (3)"),
        ({"baseline": 6, "reranked": 3}, "baseline 6, reranked 3"),
        ({"a": {"b": [1, 2]}, "c": 3}, "a (b: 1, 2); c 3"),
        (np.float64(0.5), "0.5"),
    ],
)
def test_values_read_short_and_an_effect_is_never_shown_as_zero(value, text):
    assert show(value) == text


def test_a_long_value_is_cut_between_items():
    text = show(CLAIMS["P.t3.cells"].expected)
    assert len(text) < 170
    assert text.endswith(", …")


# -- collecting and keeping ------------------------------------------------------------------------


def notebook(tmp_path, *cells, name="04_d_separation.ipynb"):
    """A notebook as Jupyter writes it after the cells displayed these objects."""
    formatter = DisplayFormatter()
    nb = nbformat.v4.new_notebook()
    for shown in cells:
        outputs = [
            nbformat.v4.new_output("display_data", data=formatter.format(item)[0]) for item in shown
        ]
        nb.cells.append(nbformat.v4.new_code_cell("...", outputs=outputs))
    nb.cells.append(nbformat.v4.new_markdown_cell("prose"))
    path = tmp_path / name
    nbformat.write(nb, path)
    return path


def test_records_are_found_in_an_executed_notebook(tmp_path):
    import nbclient

    nb = nbformat.v4.new_notebook()
    nb.cells = [
        nbformat.v4.new_markdown_cell("# Title"),
        nbformat.v4.new_code_cell(
            "from causalrag.claims import Recorder, Records\n"
            "claims = Recorder('04_d_separation')\nprint('noise')"
        ),
        nbformat.v4.new_code_cell("claims.record('P.graph.dag', holds=True, note='“1”')"),
        nbformat.v4.new_code_cell(
            "Records([claims.record('P.obs1.opened', holds=True),\n"
            "         claims.record('P.t1.promote', missing='private corpus')])"
        ),
    ]
    nbclient.NotebookClient(nb, timeout=60, kernel_name="python3").execute()
    path = tmp_path / "04_d_separation.ipynb"
    nbformat.write(nb, path)
    records = collect(path, chapter="04_d_separation")
    assert [record.id for record in records] == ["P.graph.dag", "P.obs1.opened", "P.t1.promote"]
    assert records[0] == RECORDER.record("P.graph.dag", holds=True, note="“1”")


def test_a_record_made_in_two_cells_is_refused_with_both(tmp_path):
    path = notebook(tmp_path, [direction()], [1], [Records([direction(note="again")])])
    with pytest.raises(ValueError, match=r"P\.t3\.order .*cell 1 .*cell 3"):
        collect(path)
    apart = notebook(tmp_path, [direction()], [direction(setting="analogue")])
    assert len(collect(apart)) == 2


def test_a_record_of_another_chapter_is_refused(tmp_path):
    path = notebook(tmp_path, [direction()])
    assert len(collect(path)) == 1
    with pytest.raises(ValueError, match=r"04_d_separation.*Recorder\('05_other'\)"):
        collect(path, chapter="05_other")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cells": 3}', b"\xff\xfe"])
def test_a_file_that_is_no_notebook_is_refused_by_name(tmp_path, content):
    path = tmp_path / "broken.ipynb"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.ipynb.*again"):
        collect(path)


SEVERAL = (
    RECORDER.record("P.graph.dag", holds=True),
    direction(encoder="use", setting="other encoder"),
    direction(encoder="minilm", setting="other encoder", measured=-0.035),
    Recorder("05_other").record("P.t1.promote", missing="private corpus"),
)


def test_records_come_back_from_their_files(tmp_path):
    folder = tmp_path / "new" / "records"
    paths = write_records(SEVERAL, folder)
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in paths)
    assert [p.stem for p in paths] == [record.anchor for record in SEVERAL]
    by_name = sorted(SEVERAL, key=lambda record: f"{record.anchor}.json")
    assert read_records(folder) == by_name
    assert read_records(tmp_path / "absent") == []


def test_the_same_records_give_the_same_bytes(tmp_path):
    write_records(SEVERAL, tmp_path / "a")
    write_records(SEVERAL[::-1], tmp_path / "b")
    first = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    text = first["claim-p-graph-dag.json"].decode()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert "\r" not in text


def test_writing_replaces_all_earlier_records(tmp_path):
    write_records(SEVERAL, tmp_path)
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "claim-broken.json").write_text("{")
    write_records(SEVERAL[:1], tmp_path)
    assert read_records(tmp_path) == [SEVERAL[0]]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_writing_some_chapters_keeps_the_others(tmp_path):
    write_records(SEVERAL, tmp_path)
    write_records(SEVERAL[:1], tmp_path, chapters=["04_d_separation"])
    assert {record.id for record in read_records(tmp_path)} == {"P.graph.dag", "P.t1.promote"}
    with pytest.raises(ValueError, match="not run"):
        write_records(SEVERAL, tmp_path, chapters=["04_d_separation"])
    moved = Recorder("04_d_separation").record("P.t1.promote", missing="why")
    with pytest.raises(ValueError, match=r"05_other#.*04_d_separation#"):
        write_records([moved], tmp_path, chapters="04_d_separation")


def test_nothing_is_written_when_a_record_is_refused(tmp_path):
    write_records(SEVERAL[:1], tmp_path)
    again = Recorder("05_other").record("P.graph.dag", holds=False)
    with pytest.raises(ValueError, match=r"04_d_separation#.*05_other#"):
        write_records([SEVERAL[1], SEVERAL[0], again], tmp_path)
    assert read_records(tmp_path) == [SEVERAL[0]]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace(f'"schema": {SCHEMA}', '"schema": 99'),
        lambda text: text.replace('"verdict": "holds"', '"verdict": "fails"'),
        lambda text: text.replace("P.graph.dag", "P.graph.colliders"),
    ],
)
def test_a_spoilt_record_is_refused_with_its_file_and_the_remedy(tmp_path, spoil):
    (path,) = write_records(SEVERAL[:1], tmp_path)
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    for read in (read_records, ledger):
        with pytest.raises(ValueError, match=r"claim-p-graph-dag\.json.*make book"):
            read(tmp_path)


# -- ledger ----------------------------------------------------------------------------------------


def test_a_ledger_without_records_is_all_not_run_and_never_zero(tmp_path, monkeypatch):
    monkeypatch.delenv("CAUSALRAG_RECORDS", raising=False)
    monkeypatch.chdir(tmp_path)
    for frame in (ledger(), ledger(tmp_path / "absent")):
        assert tuple(frame.columns) == COLUMNS
        assert list(frame["id"]) == list(CLAIMS)
        assert set(frame["verdict"]) == {"not run"}
        assert frame[["measured", "low", "high", "n"]].isna().all(axis=None)
        assert set(frame["cell"]) == {""}
        assert failed(frame).empty


def test_the_ledger_has_a_row_per_claim_encoder_and_setting(tmp_path):
    write_records(SEVERAL, tmp_path)
    frame = ledger(tmp_path)
    assert list(dict.fromkeys(frame["id"])) == list(CLAIMS)
    assert len(frame) == len(CLAIMS) + 1
    assert not frame.duplicated(["id", "encoder", "setting"]).any()
    two = frame[frame["id"] == "P.t3.order"]
    assert list(two["encoder"]) == ["minilm", "use"]
    row = two.iloc[1]
    assert (row["measured"], row["low"], row["high"], row["n"]) == (-0.03, -0.04, -0.02, 300)
    assert (row["verdict"], row["setting"]) == ("replicated", "other encoder")
    assert row["cell"] == "04_d_separation#claim-p-t3-order--use--other-encoder"
    promote = frame[frame["id"] == "P.t1.promote"].iloc[0]
    assert promote["paper"] == "baseline 6, reranked 3"
    assert promote["measured"] is None
    assert promote["cell"] == "05_other#claim-p-t1-promote"


def test_the_ledger_finds_its_records_by_the_environment_then_the_build(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records([RECORDER.record("P.graph.dag", holds=True)], "book/_build/records")
    write_records([RECORDER.record("P.graph.dag", holds=False)], "elsewhere")
    monkeypatch.delenv("CAUSALRAG_RECORDS", raising=False)
    assert ledger()["verdict"].iloc[0] == "holds"
    monkeypatch.setenv("CAUSALRAG_RECORDS", "elsewhere")
    assert ledger()["verdict"].iloc[0] == "fails"
    assert ledger("book/_build/records")["verdict"].iloc[0] == "holds"


def test_only_exact_claims_that_fail_turn_the_build_red(tmp_path):
    arithmetic = RECORDER.record("P.t2.grim", holds=False)
    structural = RECORDER.record("P.graph.dag", holds=False)
    others = [
        RECORDER.record("A.fusion", holds=False),
        RECORDER.record("P.assume.faithful", holds=False),
        RECORDER.record("P.graph.colliders", holds=True),
        direction(measured=0.03, low=0.02, high=0.04),
    ]
    write_records([arithmetic, structural, *others], tmp_path)
    frame = ledger(tmp_path)
    assert list(failed(frame)["id"]) == ["P.graph.dag", "P.t2.grim"]
    assert "refuted" in set(frame["verdict"])


@pytest.mark.parametrize(
    "record",
    [
        Record(id="P.no.such", chapter="x", kind="structural", holds=True),
        Record(id="P.graph.dag", chapter="x", kind="design", holds=True),
    ],
)
def test_a_record_that_does_not_fit_the_claims_is_refused(tmp_path, record):
    write_records([record], tmp_path)
    with pytest.raises(ValueError, match=rf"{record.id} as {record.kind}.*make book"):
        ledger(tmp_path)


def test_a_ledger_can_be_written_as_csv_and_read_back(tmp_path):
    write_records(SEVERAL, tmp_path / "records")
    frame = ledger(tmp_path / "records")
    frame.to_csv(tmp_path / "ledger.csv", index=False)
    back = pd.read_csv(tmp_path / "ledger.csv", keep_default_na=False, na_values=[""])
    assert list(back["verdict"]) == list(frame["verdict"])
    assert back["measured"].isna().sum() == frame["measured"].isna().sum()


def test_records_hold_no_date_and_no_path():
    text = json.dumps([record.to_json() for record in SEVERAL])
    assert not re.search(r"20\d\d-\d\d|/home|/tmp|/root", text)
    assert set(asdict(SEVERAL[0])) == set(SEVERAL[0].to_json()) - {"schema", "verdict"}
