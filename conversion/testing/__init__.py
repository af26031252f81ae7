"""The laws of conversion as tests for an author's own repository (needs hypothesis).

One line in a test module,

    TestProfile = roundtrip_suite(graph, crd)

makes one test for each law and version, over objects generated from the CRD's own schemas. The parts are also public:
``strategies`` generates objects, ``laws`` has each law as a plain check of one object that raises ``LawBroken``, and
``check_golden`` compares recorded ConversionReviews with the expected answers.
"""

from restow.conversion.testing.laws import LawBroken, Laws
from restow.conversion.testing.strategies import Generator, objects, partial_objects
from restow.conversion.testing.suite import check_golden, golden_reviews, roundtrip_suite

__all__ = [
    "Generator",
    "LawBroken",
    "Laws",
    "check_golden",
    "golden_reviews",
    "objects",
    "partial_objects",
    "roundtrip_suite",
]
