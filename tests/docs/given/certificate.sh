# A certificate for this machine in certs/, and what verifies it in ca.crt.
mkdir -p certs
python - <<'END'
from datetime import UTC, datetime, timedelta
from pathlib import Path

from restow.conversion.certificates.ca.authority import Authority

now = datetime.now(UTC)
authority = Authority.create("docs", now=now, valid_for=timedelta(days=2))
leaf = authority.issue(["127.0.0.1"], now=now, valid_for=timedelta(days=1))
Path("ca.crt").write_bytes(authority.certificate)
Path("certs/tls.crt").write_bytes(leaf.certificate)
Path("certs/tls.key").write_bytes(leaf.key)
END
