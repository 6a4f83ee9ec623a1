"""The table of term vectors: rows, what was used last, what changed, and how it shrinks."""

import numpy as np
import pytest

from causalrag.termtable import CLOCK, TermTable, drop_oldest


def encode(terms):
    return np.array([[len(term), ord(term[0])] for term in terms], dtype=np.float32)


def refuse(terms):
    raise AssertionError(f"{terms} are in the table")


def vectors(table, terms):
    rows = table.rows(terms, refuse)  # before the matrix is read: it may be replaced
    return table.vectors[rows]


def filled(terms):
    table = TermTable()
    table.rows(list(terms), encode)
    return table


def test_a_term_keeps_its_row_while_others_come():
    table = TermTable()
    rows = table.rows(["a", "bb", "a"], encode)
    assert rows[0] == rows[2] != rows[1]
    moment = CLOCK.advance()
    table.rows([f"t{i}" for i in range(500)], encode)
    assert np.array_equal(table.find(["a", "bb"]), rows[:2])
    assert np.array_equal(table.vectors[rows], encode(["a", "bb", "a"]))
    assert not table.changed(rows, np.full(3, moment)).any()
    assert table.find(["unknown"]).tolist() == [-1]
    assert (len(table), table.nbytes) == (502, 502 * 8)


def test_only_missing_terms_are_encoded_and_each_once():
    asked = []
    table = filled("ab")
    table.rows(["a", "c", "d", "c"], lambda terms: asked.append(terms) or encode(terms))
    assert asked == [["c", "d"]]


def test_nothing_is_added_if_encoding_fails():
    table = filled("ab")
    with pytest.raises(AssertionError):
        table.rows(["a", "c"], refuse)
    assert len(table) == 2
    assert table.find(["c"]).tolist() == [-1]


def test_the_least_recently_used_go_first_and_their_rows_count_as_changed():
    table = filled("abcdef")
    rows = table.rows(list("abcdef"), refuse)
    vectors(table, ["a", "c"])
    moment = np.full(6, CLOCK.advance())
    drop_oldest([table], 2 * table.row_bytes)
    assert table.find(list("abcdef")).tolist() == [rows[0], -1, rows[2], -1, rows[4], rows[5]]
    assert table.changed(rows, moment).tolist() == [False, True, False, True, False, False]
    # Their rows are given to new terms, and are still not those of the old.
    assert set(table.rows(["g", "h"], encode)) == {rows[1], rows[3]}
    assert table.changed(rows, moment).tolist() == [False, True, False, True, False, False]
    assert np.array_equal(vectors(table, list("acefgh")), encode("acefgh"))


def test_a_table_that_is_half_empty_shrinks_and_says_that_its_rows_moved():
    terms = [f"{chr(97 + i % 26)}{'x' * (i // 26)}" for i in range(200)]
    table = filled(terms)
    moment = CLOCK.advance()
    drop_oldest([table], 150 * table.row_bytes)
    assert (len(table), table.size) == (50, 50)
    assert len(table.vectors) <= 100
    assert table.vectors.base is None
    assert np.array_equal(vectors(table, terms[150:]), encode(terms[150:]))
    assert table.created > moment
    assert not table.changed(table.find(terms[150:]), np.full(50, CLOCK.advance())).any()
    table.rows(terms, encode)
    assert np.array_equal(vectors(table, terms), encode(terms))


def test_the_oldest_are_found_over_several_tables():
    first, second = filled("ab"), filled("cd")
    vectors(first, ["a"])
    drop_oldest([first, second, TermTable()], 2 * 8)
    assert first.find(["a", "b"]).tolist() == [0, -1]
    assert second.find(["c"]).tolist() == [-1]
    assert second.find(["d"]).tolist() != [-1]


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="3 dimensions, another one with the same fingerprint 2"):
        filled("ab").rows(["c"], lambda terms: np.ones((len(terms), 3), dtype=np.float32))
