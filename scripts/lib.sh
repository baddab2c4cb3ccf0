# Functions that the scripts share. They source it from the root of the checkout. POSIX sh.
#
# `need LEVEL` makes sure that .venv holds at least that level: `demo` (the extras otel and demo), `all` (every extra) or
# `dev` (every extra and the tools, in the versions of constraints.txt). `bench` is for an environment of its own: every extra
# and the tools for measuring. It never uninstalls anything. A stamp in .venv records the level and the checksum of the
# inputs, so that a second call has nothing to do.

venv=.venv
stamp=$venv/proofstream-installed

say() {
    printf '%s\n' "${0##*/}: $*" >&2
}

fail() {
    say "$*"
    exit 1
}

rank() {
    case $1 in demo) echo 1 ;; all) echo 2 ;; dev) echo 3 ;; bench) echo 4 ;; *) echo 0 ;; esac
}

# Sets PYTHON to the interpreter that makes .venv: $PYTHON if set, else the first one on PATH that is new enough.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON: there is no such command"
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is older than Python 3.11"
        return
    fi
    for PYTHON in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$PYTHON"; then return; fi
    done
    fail "Python 3.11 or newer is needed; name one as in: PYTHON=/path/to/python3 scripts/${0##*/}"
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

make_venv() {
    find_python
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"
    say "making $venv with $("$PYTHON" -V)"
    "$PYTHON" -m venv --clear "$venv" || fail "$PYTHON could not make $venv"
}

# Succeeds if .venv is usable: it runs, it was not moved, and it has the requested version of Python.
check_venv() {
    "$venv/bin/python" -c '' 2>/dev/null || return 1
    [ ! -f "$stamp" ] || [ "$(sed -n 2p "$stamp")" = "$PWD" ] || return 1
    [ -n "${PYTHON:-}" ] || return 0
    find_python
    [ "$("$PYTHON" -V)" = "$("$venv/bin/python" -V)" ] ||
        fail "$venv is of $("$venv/bin/python" -V); remove it to use $("$PYTHON" -V)"
}

# What pip says of a failure is a page, and its last line rarely says why. So it goes into a file, and one line is said.
install() {
    log=$venv/pip.log
    PIP_RETRIES=${PIP_RETRIES:-1} "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1 ||
        fail "cannot install proofstream: $(why_pip_failed "$log"); all that pip said is in $PWD/$log"
}

# Prints why pip failed, and what to do about it, on one line.
why_pip_failed() {
    if grep -Eiq 'certificate verify failed|SSLError' "$1"; then
        echo "the package index has a certificate that is not trusted here; name the one to trust: PIP_CERT=FILE scripts/${0##*/}"
    elif grep -Eiq 'NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|connection broken|name resolution' "$1"; then
        echo "no package index can be reached; connect this machine, or name another: PIP_INDEX_URL=URL scripts/${0##*/}"
    elif grep -q 'No space left' "$1"; then
        echo "no space is left on the disk"
    elif grep -q 'No matching distribution' "$1"; then
        missing=$(sed -n 's/^ *ERROR: No matching distribution found for //p' "$1" | tail -n 1)
        echo "the package index has no $missing; name one that does: PIP_INDEX_URL=URL scripts/${0##*/}"
    else
        sed -n 's/^ *ERROR: //p' "$1" | tail -n 1
    fi
}

need() {
    wanted=$(rank "$1")
    inputs=$(cat pyproject.toml constraints.txt | cksum)
    check_venv || make_venv
    if [ -f "$stamp" ] && [ "$(sed -n 3p "$stamp")" = "$inputs" ] && [ "$(sed -n 1p "$stamp")" -ge "$wanted" ]; then
        return
    fi
    case $1 in
        demo) say "installing proofstream with its extras otel and demo into $venv" && install -e '.[otel,demo]' ;;
        all) say "installing proofstream with all its extras into $venv" && install -e '.[all]' ;;
        dev)
            say "installing proofstream with all its extras and the tools for testing into $venv"
            install 'pip>=25.1' # the first version with dependency groups
            install -e '.[all]' --group dev -c constraints.txt
            ;;
        bench)
            say "installing proofstream with all its extras and the tools for measuring into $venv"
            install 'pip>=25.1'
            install -e '.[all]' --group bench -c constraints.txt
            ;;
    esac
    printf '%s\n' "$wanted" "$PWD" "$inputs" >"$stamp"
}
