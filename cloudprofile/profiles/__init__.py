"""Profiles as a whole: the verdict on a change, inheritance, rendering, and reconciling. Pure.

The names of arguments mean the same everywhere: ``new`` is the profile that a request wants to store, ``old`` the one
that it replaces, with its status, None if it is created; ``parent`` is the CloudProfile that a NamespacedCloudProfile
names, None if it does not exist; ``children`` and ``shoots`` are at least all that use the profile, and others are
ignored; versions are classified at ``now``. ``unclassified`` are the versions whose stage ``supported`` their author
did not write (``restow.cloudprofile.conversions.oldclients``).

Validation refuses profiles whose stages cannot be read. Of such a profile, rendering and reconciling raise ValueError.
"""
