"""The storage-version migrator.

Each command is a function of the same name: ``status`` returns the versions of CRDs, ``plan`` computes the work of a
migration, ``migrate`` does the whole upgrade-time job, ``prune`` trims ``status.storedVersions``, and ``ready`` decides
whether a version can be removed. An operator embeds ``Migrator``, which watches CRDs and keeps them migrated. A
``Converter`` converts objects, and with them the ownership of their fields, if versions differ in structure.

The names in ``__all__`` are public, and so is ``restow.migrator.operate.metrics``; everything else is implementation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
