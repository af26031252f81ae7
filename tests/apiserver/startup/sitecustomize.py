"""What Python runs first in the operators that tests embed the migrator in: they settle for seconds, not for a minute.

An operator of a real cluster has to wait as long as an API server lets a request last; these tests hold none back.
"""

from restow.migrator import Options

_SECONDS = 5.0

(Options.__init__.__kwdefaults__ or {})["settle_s"] = _SECONDS
assert Options().settle_s == _SECONDS
