"""Shoots: the profile that applies to one, its defaults, and the versions that it may use. Pure.

The names of arguments mean the same everywhere: ``shoot`` and ``worker`` are as requested, and defaulted unless the
function does that; ``old`` is the Shoot or the worker pool before an update, None for a new one; ``offer`` is the
CloudProfile spec that applies to the Shoot; versions are classified at ``now``; a finding is about ``path``.

Validation refuses profiles whose versions, times or ranges cannot be read. Of such a profile the functions raise
InvalidVersion, InvalidTime or InvalidRange; of a maintenance window that cannot be read, InvalidWindow.
"""
