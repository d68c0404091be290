#!/bin/sh
# setup.sh build|test: makes sure that this machine has what the Makefile needs, and installs what is missing with
# apt-get. Prints nothing and changes nothing when all is there.
#   build   compilers, CMake, libzmq, Python with venv and headers
#   test    the above, and Clang with its AddressSanitizer, lld, clang-format, gfortran, hunspell, the libraries
#           that adapters are for (GSL, CLHEP and xtensor), ip and openssl for clusters, and Chromium for reports
set -eu
purpose=${1:-build}
PYTHON=${PYTHON:-python3}
packages='' what=''

missing() { # missing PACKAGE DESCRIPTION
    packages="$packages $1"
    what="$what
  - $2 (Debian: $1)"
}
have() { command -v "$1" >/dev/null 2>&1; }
python_has() { "$PYTHON" -c "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | c++ -x c++ -fsyntax-only - >/dev/null 2>&1; }
clang_has_asan() {
    for file in "$(clang -print-resource-dir)"/lib/*/libclang_rt.asan*.a; do [ -e "$file" ] && return; done
    return 1
}

find_missing() {
    packages='' what=''
    have cc || missing gcc 'a C compiler'
    have c++ || missing g++ 'a C++ compiler'
    have nm || missing binutils 'nm'
    have cmake || missing cmake 'CMake 3.20 or later'
    have ninja || missing ninja-build 'Ninja'
    if ! have pkg-config; then
        missing pkg-config 'pkg-config'
        [ -e /usr/include/zmq.h ] || missing libzmq3-dev 'libzmq 4.3 or later, with headers'
    elif ! pkg-config --exists 'libzmq >= 4.3'; then
        missing libzmq3-dev 'libzmq 4.3 or later, with headers'
    fi
    if ! have "$PYTHON"; then
        missing python3 'Python 3.11 or later'
        missing python3-venv 'the venv module of Python'
        missing python3-dev 'the headers of Python'
    else
        python_has 'import venv, ensurepip' || missing python3-venv 'the venv module of Python'
        python_has 'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' ||
            missing python3-dev 'the headers of Python'
    fi
    if [ "$purpose" = test ]; then
        if ! have clang; then
            missing clang 'Clang'
            missing libclang-rt-dev "Clang's AddressSanitizer"
        elif ! clang_has_asan; then
            missing libclang-rt-dev "Clang's AddressSanitizer"
        fi
        have gfortran || missing gfortran 'a Fortran compiler'
        has_header gsl/gsl_rng.h || missing libgsl-dev 'the GNU Scientific Library, for the test of its adapter'
        has_header CLHEP/Random/RandomEngine.h || missing libclhep-dev 'CLHEP, for the test of its adapter'
        [ -e /usr/include/xtensor/xarray.hpp ] || missing libxtensor-dev 'xtensor, for sources written for pyprob_cpp'
        have ld.lld || missing lld 'the linker lld, for link-time optimisation with Clang'
        have clang-format || missing clang-format 'clang-format'
        have ip || missing iproute2 'ip, for tests on several hosts made of network namespaces'
        have openssl || missing openssl 'openssl, for certificates'
        have hunspell || missing hunspell 'the spelling checker hunspell'
        [ -e /usr/share/hunspell/en_GB.dic ] || missing hunspell-en-gb "hunspell's British dictionary"
        have chromium || missing chromium 'Chromium, for the tests of reports'
        have chromedriver || missing chromium-driver "Chromium's driver, for the tests of reports"
    fi
}

find_missing
if [ -n "$packages" ]; then
    echo "Missing on this machine:$what"
    if ! have apt-get; then
        echo "This system has no apt-get. Install the above with its own package manager, then run make again." >&2
        exit 1
    fi
    sudo=''
    if [ "$(id -u)" -ne 0 ]; then
        if ! have sudo; then
            echo "Neither root nor sudo. As root, run: apt-get install$packages" >&2
            exit 1
        fi
        sudo='sudo'
    fi
    echo "Installing:$packages"
    # The lists may be stale or absent. One unreachable source need not matter, so the install decides.
    $sudo apt-get -qq update || echo "apt-get update failed; trying to install all the same." >&2
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages \
        </dev/null >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        echo "apt-get could not install:$packages" >&2
        exit 1
    fi
    rm -f "$log"
    find_missing
    if [ -n "$packages" ]; then
        echo "Still missing after the installation:$what" >&2
        exit 1
    fi
fi

if ! python_has 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$PYTHON is $("$PYTHON" --version 2>&1); libars needs Python 3.11 or later. Name another: make PYTHON=python3.12 ..." >&2
    exit 1
fi
