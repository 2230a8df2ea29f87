import unittest

import numpy as np
import pandas
import polars
import pyarrow as pa
from scipy.sparse import csr_matrix

from stagewise.errors import DamagedError
from stagewise.sparse import SparseLayout, SparsePreparation, SparseRows
from stagewise.words import Words


def manifest(text: str = "") -> dict[str, object]:
    options: dict[str, object] = {"text": text, "word_columns": 1 << 18, "word_phrases": 2} if text else {}
    return {"plan": {"input": options}}


class Rows(unittest.TestCase):
    def test_products_are_those_of_the_rows_with_their_zeros(self) -> None:
        random = np.random.default_rng(1)
        for n in (0, 1, 63, 64, 65):
            dense = random.standard_normal((n, 7)) * (random.random((n, 7)) < 0.2)
            weights = random.standard_normal((8, 3)).astype(np.float32)
            rows = SparseLayout(manifest()).features(dense)
            ones = SparseRows(rows.starts, rows.columns, rows.values, ones=True)
            np.testing.assert_allclose(ones @ weights, dense @ weights[:7] + weights[7], atol=1e-5)
            np.testing.assert_allclose(rows[2:9] @ weights[:7], (dense @ weights[:7])[2:9], atol=1e-5)

    def test_a_matrix_stays_as_it_is(self) -> None:
        matrix = csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([3, 0, 3]), np.array([0, 3])), shape=(1, 5))
        rows = SparseLayout(manifest()).features(matrix)
        np.testing.assert_array_equal((rows.columns, rows.values), ([0, 3], [2, 5]))
        np.testing.assert_array_equal((matrix.indices, matrix.data), ([3, 0, 3], [1, 2, 4]))

    def test_what_is_no_row_says_so(self) -> None:
        layout, texts = SparseLayout(manifest()), SparseLayout(manifest("message"))
        for rows, message in (
            (csr_matrix([[0, 0], [np.nan, 1]]), "row 1, feature 0: nan is not a finite float32"),
            ([[0, 1e300]], "row 0, feature 1: inf is not a finite float32"),
            (["a text"], "rows are a list of 1 values, .*: expected a sparse matrix of scipy, or rows of numbers"),
            ([1, 2], "rows are a list of 2 values, .*: expected a sparse matrix of scipy, or rows of numbers"),
            ([["a", "b"]], "rows of type object: expected a sparse matrix of scipy, or rows of numbers"),
            ([[1, 2], [1]], "row 1 has 1 values, row 0 has 2: expected a sparse matrix"),
            (None, "rows are None: expected a table, or a list of rows"),
            (pandas.Series([1.0, 2.0]), "rows are a Series"),
        ):
            with self.subTest(message), np.errstate(over="ignore"), self.assertRaisesRegex(ValueError, message):
                layout.features(rows)
        with self.assertRaisesRegex(ValueError, "row 1: 2 is no text"):
            texts.features(["one", 2])
        with self.assertRaisesRegex(ValueError, "rows are None"):
            texts.features(None)
        with self.assertRaisesRegex(ValueError, "lacks the column of texts 'message'; it has body"):
            texts.features(polars.DataFrame({"body": ["one"]}))
        with self.assertRaisesRegex(ValueError, "row 1: None is no text"):
            texts.features([{"message": "one"}, {"body": "two"}])
        with self.assertRaisesRegex(TypeError, "expected a list of texts"):
            texts.features("a text")
        with self.assertRaisesRegex(ValueError, "row 1: 'utf-8' codec can't encode"):
            texts.features(["one", "\ud800"])

    def test_texts_may_be_a_column_of_a_table(self) -> None:
        layout, texts = SparseLayout(manifest("message")), ["one two", "", "three"]
        want = layout.features(texts)
        content = {"other": [1, 2, 3], "message": texts}
        for rows in (
            pandas.DataFrame(content),
            polars.DataFrame(content),
            pa.table(content),
            [{"message": text} for text in texts],
            pandas.Series(texts),
            polars.Series(texts),
            pa.array(texts),
            np.array(texts),
            tuple(texts),
        ):
            got = layout.features(rows)
            for field in ("starts", "columns", "values"):
                np.testing.assert_array_equal(getattr(got, field), getattr(want, field))

    def test_words_are_counted_with_the_phrases_that_they_make(self) -> None:
        def words(columns: int, phrases: int) -> Words:
            return Words({"word_columns": columns, "word_phrases": phrases})

        counts = words(1 << 40, 2).count("to be, or not to be")
        self.assertEqual(sorted(counts.values()), [1, 1, 1, 1, 1, 2, 2, 2])  # or, not; be or, or not, not to; to, be; to be
        self.assertEqual(words(1 << 40, 1).count("TO be"), words(1 << 40, 1).count("be—to"))
        self.assertEqual(words(1, 1).count("a b c"), {0: 3})

    def test_words_of_a_vocabulary_are_counted_and_no_others(self) -> None:
        vocabulary = ["be", "not", "not to", "to be or", "ça"]
        words = Words({"word_columns": 10, "word_phrases": 3, "vocabulary": vocabulary})
        self.assertEqual(words.count("To be, or not to be. ÇA?"), {0: 2, 1: 1, 2: 1, 3: 1, 4: 1})
        self.assertEqual(words.count("something else"), {})


if __name__ == "__main__":
    unittest.main()


class Factors(unittest.TestCase):
    plan = {"prepare": {"scale": "unit", "values": "log1p"}}

    def test_those_of_columns_that_occur_are_those_of_all(self) -> None:
        every = np.zeros(9001, np.float32)
        every[[2, 3, 9000]] = 3, 0.5, 2
        numbers = {"center": np.array([1, 2], np.float32), "scale": np.array([2, 1], np.float32), "labels": ["a", "b"]}
        occurring = {"factor_columns": np.array([[0, 2], [0, 3], [2, 808]], np.float32), "factor_values": np.array([3, 0.5, 2], np.float32)}
        rows = SparseLayout(manifest()).features(csr_matrix(([2.0, -4, 3, 7, 1], ([0, 0, 0, 2, 2], [0, 3, 9000, 2, 9])), shape=(3, 9002)))
        for rest in (numbers, {"labels": ["a", "b"]}):
            want, got = SparsePreparation(self.plan, {"factors": every, **rest}), SparsePreparation(self.plan, {**occurring, **rest})
            self.assertEqual((got.width, got.inputs), (want.width, want.inputs))
            for field in ("starts", "columns", "values"):
                np.testing.assert_array_equal(getattr(got.apply(rows), field), getattr(want.apply(rows), field))

    def test_columns_out_of_order_are_damaged(self) -> None:
        for digits in ([[0, 3], [0, 2]], [[0, 2], [0, 2]], [[-1, 0], [0, 2]], [[0, 2], [1 << 14, 0]]):
            tensors = {"factor_columns": np.array(digits, np.float32), "factor_values": np.ones(2, np.float32), "labels": ["a", "b"]}
            with self.subTest(digits), self.assertRaises(DamagedError):
                SparsePreparation(self.plan, tensors)
