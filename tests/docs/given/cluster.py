"""A session of the administrator, in the namespace of a page's Python."""

from restow.kube import connect

cluster = await until_the_end.enter_async_context(connect())  # noqa: F704, F821, PLE1142
