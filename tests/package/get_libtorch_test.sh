#!/usr/bin/env bash
# get_libtorch_test.sh CHECKOUT: the script of the package that fetches LibTorch, with made-up wheels of a few bytes that
# pip is told of by its own settings: what it does without a network, when it is called again, and where somebody has put
# a LibTorch before.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=outcome.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/outcome.sh"

checkout=$1
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
here="$scratch/a prefix/lib/ddprun"
place=$here/libtorch
shop=$scratch/shop  # stands for the index

# make_wheel FOLDER NAME VERSION FILE TEXT
make_wheel() {
  /usr/bin/python3 - "$@" <<'END'
import base64, hashlib, sys, zipfile
folder, name, version, file, text = sys.argv[1:]
info = f"{name}-{version}.dist-info"
digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
content = {
    file: text,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/RECORD": f"{file},sha256={digest},{len(text)}\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
}
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for entry, written in content.items():  # at no time of day: the same wheel each time
        wheel.writestr(zipfile.ZipInfo(entry), written)
END
}

# hash_of WHEEL
hash_of() { printf -- '--hash=sha256:%s' "$(sha256sum <"$1" | cut -d ' ' -f 1)"; }

get_libtorch() {
  env -i PATH=/usr/bin:/bin HOME="$scratch" PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS="$shop" \
    "$here/get_libtorch" >"$scratch/told" 2>&1
}

expect_success() { get_libtorch || fail "$1: exit code $?: $(<"$scratch/told")"; }

# refuses WHAT TEXT...: it fails, and says each of the texts.
refuses() {
  local what=$1 text
  shift
  ! get_libtorch || fail "$what: it did not fail: $(<"$scratch/told")"
  for text in "$@"; do grep -qF -- "$text" "$scratch/told" || fail "$what: '$text' is not in: $(<"$scratch/told")"; done
}

expect_whole() {
  [[ ! -L $place && -e $place/torch/version.py && $(<"$place/nvidia/nccl/nccl.txt") == "all of it" ]] ||
    fail "$1: it is not whole"
  (($(find "$here" -mindepth 1 -maxdepth 1 | wc -l) == 3)) || fail "$1: something is left: $(ls -A "$here")"
}

/usr/bin/python3 -m pip --version >/dev/null 2>&1 || skip "/usr/bin/python3 has no pip"
(($(df --output=avail -k -- "$scratch" | tail -n 1) > 8000000)) || skip "there are less than 8 GB, which it asks for"
mkdir -p -- "$here" "$shop"
cp -- "$checkout"/cmake/package/get_libtorch "$here/"
make_wheel "$shop" torch 2.11.0 torch/version.py "__version__ = '2.11.0+cu130'"
make_wheel "$shop" nvidia_nccl_cu13 2.28.9 nvidia/nccl/nccl.txt "all of it"
printf 'torch==2.11.0 \\\n    --hash=sha256:%064d \\\n    %s\nnvidia-nccl-cu13==2.28.9 %s  # a comment\n' 0 \
  "$(hash_of "$shop"/torch-*)" "$(hash_of "$shop"/nvidia_*)" >"$here/libtorch.txt"

make_wheel "$shop" nvidia_nccl_cu13 2.28.9 nvidia/nccl/nccl.txt "something else"
refuses "a wheel of another's" "nvidia-nccl-cu13==2.28.9 could not be fetched" "DO NOT MATCH THE HASHES"
rm -r -- "$here/wheels" "$shop"/nvidia_*
refuses "one wheel cannot be fetched" "nvidia-nccl-cu13==2.28.9 could not be fetched" "dpkg --configure -a" \
  "$here/wheels" "$place a link to"
[[ ! -e $place ]] || fail "half a LibTorch is in place"
rm -- "$shop"/torch-*
make_wheel "$shop" nvidia_nccl_cu13 2.28.9 nvidia/nccl/nccl.txt "all of it"
expect_success "it goes on where it stopped"
expect_whole "it goes on where it stopped"

before=$(stat -c %i -- "$place")
expect_success "all is there"
[[ ! -s $scratch/told && $(stat -c %i -- "$place") == "$before" ]] ||
  fail "all is there: it did something: $(<"$scratch/told")"

make_wheel "$shop" torch 2.11.0 torch/version.py "__version__ = '2.11.0+cu130'"
printf 'all of IT' >"$place/nvidia/nccl/nccl.txt"
expect_success "a file was changed, and is as long as it was"
expect_whole "a file was changed, and is as long as it was"

rm -r -- "$place"
mkdir -- "$here/wheels"
printf 'no wheel' >"$here/wheels/torch-2.11.0-py3-none-any.whl"
refuses "a wheel is damaged" "remove those that are damaged" "$here/wheels"
make_wheel "$here/wheels" torch 2.11.0 torch/version.py "__version__ = '2.11.0+other'"
refuses "a wheel of another's was put there" "DO NOT MATCH THE HASHES" "or not PyPI's"
mv -- "$shop"/* "$here/wheels/"
expect_success "the wheels were put there"
expect_whole "the wheels were put there"

# A link is somebody else's: used where it fits, and never changed.
mv -- "$place" "$scratch/site-packages"
ln -s -- "$scratch/site-packages" "$place"
expect_success "a link"
grep -q "LibTorch 2.11.0 is there: .*, a link to $scratch/site-packages" "$scratch/told" ||
  fail "a link: $(<"$scratch/told")"
printf "__version__ = '2.10.0'\n" >"$scratch/site-packages/torch/version.py"
refuses "a link to another version" "it has torch 2.10.0 in place of 2.11.0"
[[ -L $place ]] || fail "the link was replaced"
echo "passed"
