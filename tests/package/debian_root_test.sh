#!/usr/bin/env bash
# debian_root_test.sh BUILD_FOLDER CHECKOUT: installs the packages that debian_test.sh has made, in a copy of this
# machine's root that is gone afterwards, and in which the checkout is hidden; then trains, and builds plugins, as an
# ordinary user.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=outcome.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/outcome.sh"

build=$1 checkout=$2
self=$(readlink -f -- "${BASH_SOURCE[0]}")
me=$(id -u)
torch=$(sed -n 's/^DDPRUN_TORCH_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")

require_torch_of_packages() {
  local version
  version=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$torch/version.py")
  grep -q "^torch==$version " "$checkout/cmake/package/libtorch.txt" ||
    skip "the build has torch $version, the packages for Debian fetch another"
}

# Goes on in a namespace of its own, where mounts are ours and end with us.
enter_namespace() {
  local how=(--mount --propagation private)
  ((me == 0)) || how+=(--map-root-user)
  unshare "${how[@]}" bash -c 'mount -t tmpfs none /mnt && cd /mnt && mkdir upper work root &&
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root' 2>/dev/null ||
    skip "no copy of the root can be mounted here"
  INSIDE=1 exec unshare "${how[@]}" "$self" "$build" "$checkout"
}

# /mnt/root: this machine, with LibTorch in /opt and without the checkout.
mount_root() {
  local site
  site=$(readlink -f -- "${torch%/torch}")
  mount -t tmpfs none /mnt
  mkdir /mnt/{upper,work,root,packages}
  cp -- "$build"/tests/packages/*.deb /mnt/packages/
  mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none "$root"
  mkdir -p "$root/opt/site-packages" "$root/packages" "$root/home/user" "$root/usr/lib/ddprun"
  mount --bind "$site" "$root/opt/site-packages"
  mount --bind /mnt/packages "$root/packages"
  ! [[ -d $root$checkout ]] || mount -t tmpfs none "$root$checkout"
  mount --rbind /dev "$root/dev"
  mount --rbind /proc "$root/proc"
  mount -t tmpfs none "$root/tmp"
  chmod 1777 "$root/tmp" "$root/home/user"
}

in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
}

# Not root, where this is not root in name only.
as_user() {
  local who=()
  ((me != 0)) || who=(--reuid=65534 --regid=65534 --clear-groups)
  chroot "$root" setpriv "${who[@]}" env -i -C /home/user HOME=/home/user PATH=/bin:/usr/bin LC_ALL=C "$@" \
    >"$root/home/log" 2>&1 || fail "$*: $(<"$root/home/log")"
}

expect_trained() {
  grep -q '"status": "completed"' "$root/home/user/$1/summary.json" || fail "$1: it did not train to its end"
}

[[ -n $(compgen -G "$build/tests/packages/ddprun_*.deb") ]] || skip "there are no packages: Package.Debian was skipped"
require_torch_of_packages
[[ -n ${INSIDE:-} ]] || enter_namespace
root=/mnt/root
mount_root

# A LibTorch that is there already is used, and nothing is fetched. Dependencies are the other test's.
ln -sfn /opt/site-packages "$root/usr/lib/ddprun/libtorch"
in_root dpkg --install --force-depends --force-unsafe-io --no-triggers --recursive /packages >/mnt/dpkg.log 2>&1 ||
  fail "dpkg --install: $(</mnt/dpkg.log)"
grep -q 'LibTorch 2.* is there: /usr/lib/ddprun/libtorch, a link' /mnt/dpkg.log ||
  fail "it does not tell of the link: $(</mnt/dpkg.log)"

as_user ddprun experiments/digits.yaml trainer.max_steps=30 launch.workers=2 launch.device=cpu
expect_trained outputs/digits/latest
as_user ddprun-sweep --help
grep -q '^usage: ddprun-sweep SWEEP.yaml' "$root/home/log" || fail "ddprun-sweep is called: $(<"$root/home/log")"
as_user ddprun-new-plugin logger my_logger
as_user ddprun --build my_logger/my_logger.cpp experiments/digits.yaml +loggers=my_logger trainer.max_steps=10
grep -q '^| val |' "$root"/home/user/outputs/digits/latest/my_logger.md || fail "the logger wrote no row"
if [[ -x $root/usr/bin/cmake && -x $root/usr/bin/ninja ]]; then
  as_user bash -ec 'cd my_logger && sed -n "s/^    //p" README.md | bash -euo pipefail'
  expect_trained my_logger/outputs/my_logger/latest
  [[ ! -L $root/bin ]] || as_user env PATH=/bin cmake -S my_logger -B found_through_a_link
fi

in_root dpkg --purge --force-depends ddprun-dev ddprun >/mnt/dpkg.log 2>&1 || fail "dpkg --purge: $(</mnt/dpkg.log)"
left=$(cd -- "$root" && find usr -path '*ddprun*' -newer "$root/packages" 2>/dev/null | head -n 5)
[[ -z $left ]] || fail "dpkg --purge leaves $left"
[[ -e $root/opt/site-packages/torch/version.py ]] || fail "dpkg --purge follows the link"
echo "passed"
