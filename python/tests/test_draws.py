import unittest

import numpy as np

from stagewise.draws import Stream, hash_of, mix


class Draws(unittest.TestCase):
    """The numbers are those of schemas/FORMAT.md."""

    def test_mix_and_hash(self) -> None:
        self.assertEqual(int(mix(np.zeros(1, dtype=np.uint64))[0]), 0xE220A8397B1DCDAF)
        self.assertEqual(hash_of(1, 2, 3), 0xD0734750FDE362B3)

    def test_streams(self) -> None:
        directions, offsets = Stream(1, 0, 1), Stream(1, 0, 2)
        self.assertEqual(int(directions.words(0, 1)[0]), 0x91DF2B1652002E2D)
        self.assertEqual(directions.uniform(1)[0], 0.5698115281575161)
        np.testing.assert_array_equal(offsets.uniform(3), [0.5438435738014328, 0.3235420246212467, 0.8544741370056083])
        normals = [-0.04673991676345345, 1.0595822906002081, 1.3283458037422056]
        normals += [1.5986860782807697, -0.13471850166819685, -0.7711421468046789]
        np.testing.assert_allclose(directions.normal(6), normals, rtol=1e-14)

    def test_a_longer_sequence_begins_with_a_shorter_one(self) -> None:
        stream = Stream(2**64 - 1, 7, 1)
        many = stream.normal((1 << 20) + 5)
        for count in (0, 1, 2, 3, 1 << 20):
            np.testing.assert_array_equal(stream.normal(count), many[:count])
        self.assertLess(abs(float(many.std()) - 1), 0.01)

    def test_below(self) -> None:
        draws = Stream(3, 0, 3).below(np.array([1, 2, 1000]), 3)
        self.assertTrue((draws >= 0).all() and (draws < [1, 2, 1000]).all())
