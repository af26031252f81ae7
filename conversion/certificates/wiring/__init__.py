"""Decides how a CRD or a webhook configuration should be wired: functions over documents, without any request."""
