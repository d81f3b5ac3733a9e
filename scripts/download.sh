#!/usr/bin/env bash
# Downloads the parts of WMT14 English-German from their public addresses and makes text of them: train (Europarl v7,
# Common Crawl and News Commentary, 4.5 million pairs), newstest2013 and newstest2014 (all 3,003 lines), as .en and .de.
#
# Usage: scripts/download.sh --out FOLDER [options]
#   --out FOLDER             gets the text, and archives/ with their SHA256SUMS
#   --mirror URL_OR_FOLDER   has the archives under the same names (http, https, file or a folder)
#   --news-commentary N      version: 9, that of WMT14 (default), or 12, as newer scripts use
#   --valid "EN DE", --test "EN DE"   your own files of newstest2013, newstest2014: plain text (also .gz) or .sgm
# Called again after an interruption it goes on; what is there is checked against SHA256SUMS, which the first download
# writes, since no hashes are published with the archives.
#
# Example: scripts/download.sh --out /data/wmt14
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out='' mirror='' news_commentary=9
declare -A files_of=() # the user's own, by subset
while (($#)); do
  case $1 in
    --help | -h) show_help ;;
    --valid | --test) need_value "$1" $#; files_of[${1#--}]=$2; shift 2 ;;
    --out | --mirror | --news-commentary)
      need_value "$1" $#
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2
      ;;
    *) usage_error "unknown option '$1'" ;;
  esac
done
[[ $out ]] || usage_error "--out is needed"
[[ $news_commentary == 9 || $news_commentary == 12 ]] || usage_error "--news-commentary must be 9 or 12, not '$news_commentary'"
use_environment python
options=(--news-commentary "$news_commentary") own=''
for subset in "${!files_of[@]}"; do
  read -ra files <<<"${files_of[$subset]}"
  ((${#files[@]} == 2)) || usage_error "--$subset needs two files, \"EN DE\", not '${files_of[$subset]}'"
  for file in "${files[@]}"; do [[ -f $file ]] || die "$file not found: give the two files of --$subset"; done
  options+=("--$subset" "${files[@]}")
  own+=" $subset $(cat "${files[@]}" | sha256sum | cut -c 1-64)"
done

extract() { python "$TOOLS/wmt14.py" extract "$out/archives" "$out" "${options[@]}"; }
mkdir -p "$out/archives"
# not a step: what was downloaded is checked each time
python "$TOOLS/wmt14.py" download "$out/archives" ${mirror:+--mirror "$mirror"} "${options[@]}" || exit 1
setting "archives $(sha256sum <"$out/archives/SHA256SUMS" | cut -c 1-64) news commentary $news_commentary own${own:- none}"
step "$out" extract newstest2014.de extract
say "WMT14 English-German: $out"
