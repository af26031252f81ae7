# An operator under kopf settles for seconds, and not for a minute: no client here has a request that lasts longer.
kopf=$(command -v kopf)
mine=$(dirname "$(command -v kubectl)")/kopf
cat > "$mine" <<END
#!/bin/sh
export PYTHONPATH="$(dirname "$(realpath docs)")/tests/apiserver/startup"
exec "$kopf" "\$@"
END
chmod +x "$mine"
