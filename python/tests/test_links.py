import unittest

import numpy as np

from stagewise.features.sorf import _hadamard
from stagewise.links import LINKS, simplex


class Links(unittest.TestCase):
    def setUp(self) -> None:
        self.scores = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)

    def test_simplex_is_the_nearest_point(self) -> None:
        points = np.random.default_rng(2).dirichlet(np.ones(4), size=1000)
        for row, nearest in zip(self.scores, simplex(self.scores), strict=True):
            self.assertAlmostEqual(float(nearest.sum()), 1, places=6)
            self.assertGreaterEqual(float(nearest.min()), 0)
            self.assertTrue((((points - row) ** 2).sum(axis=1) >= ((nearest - row) ** 2).sum() - 1e-6).all())
        on_it = np.array([[0.25, 0.75, 0, 0]], dtype=np.float32)
        np.testing.assert_allclose(simplex(on_it), on_it, atol=1e-7)

    def test_every_link_gives_probabilities(self) -> None:
        for name, link in LINKS.items():
            prediction = link.predict(100 * self.scores)
            probabilities = simplex(prediction) if link.outside else prediction
            self.assertEqual(name, link.name)
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
            self.assertGreaterEqual(probabilities.min(), 0)

    def test_a_score_keeps_its_class_in_every_unit(self) -> None:
        scores = 0.5 + self.scores / 20  # predictions beyond 0 and 1 are equally certain
        for one in LINKS.values():
            for other in LINKS.values():
                converted = one.convert(scores, other)
                np.testing.assert_array_equal(converted.argmax(axis=1), scores.argmax(axis=1))

    def test_no_probability_of_0_becomes_an_infinite_score(self) -> None:
        certain = np.array([[1, 0, 0]], dtype=np.float32)
        np.testing.assert_allclose(LINKS["calibrated"].convert(certain, LINKS["softmax"]), [[0, np.log(1e-3), np.log(1e-3)]], rtol=1e-6)


class Hadamard(unittest.TestCase):
    def test_entries_are_the_parity_of_common_bits(self) -> None:
        h = _hadamard(5)
        for a in range(32):
            for b in range(32):
                self.assertEqual(h[a, b], (-1) ** (a & b).bit_count())
