"""The example provider's own tests, run as they stand."""

from docs.examples.provider.test_conversions import TestCache, TestGateway, test_recorded_reviews

__all__ = ["TestCache", "TestGateway", "test_recorded_reviews"]
