"""The common part of commands that serve a webhook: sockets, an own certificate authority, supervised tasks."""
