#!/usr/bin/env bash
# Makes .venv hold exactly what requirements.lock says, and the project itself, editable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
made=$venv/swe_pytest.lock            # written last: without it the environment is half made
installed=$venv/swe_pytest.pyproject  # the pyproject.toml whose entry points are installed
log=.swe_pytest/python.log

say() { printf 'python: %s\n' "$*"; }
fail() { printf 'python: %s\n' "$*" >&2; exit 1; }

# Prints the major.minor version of an interpreter; fails if it does not run or is too old.
version() {
    "$1" -c 'import sys; v = sys.version_info; print("%d.%d" % v[:2]); sys.exit(v < (3, 11))' 2>/dev/null
}

choose() {
    local name
    if [[ -n ${PYTHON:-} ]]; then
        version "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON is no Python 3.11 or newer: name one that is"
        printf '%s' "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if version "$name" >/dev/null; then
            printf '%s' "$name"
            return
        fi
    done
    fail "needs Python 3.11 or newer and finds none: install it (Debian 12+, Ubuntu 24.04+:" \
        "apt install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12"
}

# The lock, and the folder: scripts of an environment that was moved still start the old place's Python.
wanted() { printf '# for %s\n' "$PWD"; cat requirements.lock; }

is_whole() {
    local have
    have=$(version $venv/bin/python) || return 1
    [[ -z ${PYTHON:-} || $(version "$PYTHON") == "$have" ]] || return 1
    wanted | cmp -s - $made
}

is_installed() { cmp -s pyproject.toml $installed && [[ -x $venv/bin/swe-pytest ]]; }

# Runs pip inside the environment; what it says is shown only when it fails.
install() {
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 $venv/bin/python -m pip install "$@" >>$log 2>&1 || {
        tail -n 25 $log >&2
        fail "pip could not install it (above; all of it: $log). Is a package index reachable?" \
            "pip's own settings say which (pip config list). Then run the same command again"
    }
}

# A Debian Python has no venv until python3-venv is there.
ensure_venv() {
    "$1" -c 'import ensurepip' 2>/dev/null && return
    local package
    package=python$(version "$1")-venv
    if [[ ${SWE_PYTEST_INSTALL:-1} != 0 && $(id -u) == 0 && -x $(command -v apt-get) ]]; then
        say "installing $package"
        { apt-get update || true; DEBIAN_FRONTEND=noninteractive apt-get install -y \
            --no-install-recommends "$package"; } </dev/null >>$log 2>&1 || tail -n 10 $log >&2
    fi
    "$1" -c 'import ensurepip' 2>/dev/null ||
        fail "$1 has no venv module: sudo apt install $package (Debian, Ubuntu), then run the same command again"
}

is_whole && is_installed && exit

python=$(choose)
mkdir -p .swe_pytest
exec 9>>.swe_pytest/python.lock
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' # held by this shell until it ends; macOS has no flock
: >$log

if ! is_whole; then
    SECONDS=0
    ensure_venv "$python"
    say "making $venv with $("$python" --version) from requirements.lock (about a minute)"
    rm -rf $venv
    "$python" -m venv $venv >>$log 2>&1 || { cat $log >&2; fail "$python could not make $venv (above)"; }
    # Not compiled: most of it (pandas, pyarrow, modal) is never imported, and the rest compiles as it is.
    install --no-compile --require-hashes -r requirements.lock
    wanted >$made
    say "$venv made in $SECONDS s"
fi
if ! is_installed; then
    install --no-deps --no-build-isolation --editable .
    cp pyproject.toml $installed
    say "swe_pytest installed in $venv, editable"
fi
