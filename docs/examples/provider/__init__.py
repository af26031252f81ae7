"""A provider with two kinds of three versions each, as an author would write it.

- ``Gateway`` (edge.example.dev): v1alpha1, v1beta1 and the hub v1, which is also the storage version;
- ``Cache``: v1, v2 and v3 around a hub that no client ever sees, so that no version has to be the widest.

``conversions.py`` declares them, ``test_conversions.py`` is all their test, ``reviews/`` has recorded
ConversionReviews.
"""
