"""What a migration would do, would cost and would fail at, found without storing anything."""
