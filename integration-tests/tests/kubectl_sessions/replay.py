#!/usr/bin/env python3
"""Replay golden kubectl sessions on any cluster and compare with what a real control plane answered.

Recorded with kubectl 1.32.4 and 1.36.3 against kube-apiserver, controller-manager and scheduler 1.36.3 with KWOK as the
kubelet of two nodes; a step whose outputs or exit code differ is reported.

  replay.py --kubectl PATH --kubeconfig FILE [--only NAME[,NAME]] [--area A]
         [--record] [--variant V] [--limit S] [--slow X] [--out FILE] [-v] [--list]

Exit code: 0 all equal, 1 some step differs, 2 usage. --record writes `expect:` (or `expect_<V>:` where the output differs
from `expect`, with --variant V) into transcripts/*.yaml. NORM and
the functions after it say what is not compared.
"""
import argparse, difflib, glob, json, os, random, re, shlex, shutil, signal, subprocess, sys, tempfile, time
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
A = "bcdfghjklmnpqrstvwxz2456789"          # alphabet of generated names and template hashes
SUF = rf"[{A}]{{5}}"
DUR = r"(?:<unknown>|<invalid>|\d+(?:y\d+d|y|d\d+h|d|h\d+m|h|m\d+s|m|s|ms)|\d+(?:\.\d+)?m?s)"

# ---------------------------------------------------------------- normalisation
# Each rule: (regex, replacement). Applied in order to stdout and stderr of every step, after {ns} was put in place of the
# namespace. Only what a correct system may choose freely is replaced.
NORM = [
    (r"(?m)^I\d{4} [\d:.]+ +\d+ .*(?:\n|$)", ""),                                  # klog information lines
    (r"(?m)^E\d{4} [\d:.]+ +\d+ ", "E<klog> "),                                   # klog prefix: time, pid
    (r"(?m)^(E<klog> )[\w.]+\.go:\d+\]", r"\1<file>]"),
    (r"(?m)^W\d{4} [\d:.]+ +\d+ [\w.]+\.go:\d+\]", "W<klog> <file>]"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?(?: UTC)?(?: m=\S+)?", "<time>"),
    (r'(resourceVersion(\\?)"?: ?\\?")\d+(?=\\?")', r"\1<rv>"),
    (r"(Resource Version: +)\d+", r"\1<rv>"),
    (r"(Expected resource version to be \S+, was )\d+", r"\1<rv>"),
    (r"https?://(?:127\.0\.0\.1|localhost|\[::1\]|[a-z0-9.-]+):\d{2,5}", "<server>"),
    (r"(?:127\.0\.0\.1|localhost):\d{4,5}", "<server>"),
    (r"\bkubectl(?:\.1\.\d+|1\d\d)(?=[ -])", "kubectl"),                                # how the binary happens to be called
    (r"/[^\s\"']*kubectl-edit-\d+\.yaml", "<editfile>"),
    (r"(requesting uid, groups or user-extra for )\S+", r"\1<user>"),
    (r"/[^\s\"':]*?/(LIVE|MERGED)-\d+", r"<diffdir>/\1"),
    (r"\b(?:10|172|192|127|169)\.\d+\.\d+\.\d+(?=\b)", "<ip>"),
    (r"\b3[0-2]\d{3}/(TCP|UDP|SCTP)", r"<nodeport>/\1"),
    (r"(nodePort: )\d+", r"\1<nodeport>"),
    (rf"(kube-api-access-){SUF}\b", r"\1<r>"),
    (rf"(?<=[a-z0-9])-([{A}]{{8,10}})-{SUF}(?![a-z0-9-])", r"-<hash>-<r>"),          # pod of a deployment
    (rf"(?<=[a-z0-9])-2\d{{7}}-{SUF}(?![a-z0-9-])", r"-<minute>-<r>"),               # pod of a cronjob's job
    (r"(?<=[a-z0-9])-2\d{7}(?![0-9a-z-])", r"-<minute>"),                            # job of a cronjob
    (rf"(?<=[a-z0-9])-(?=[{A}]*[2-9])[{A}]{{8,10}}(?![a-z0-9-])", r"-<hash>"),       # replica set
    (rf"(?<=[a-z0-9])-(?=[{A}]*[2-9])[{A}]{{8,10}}-(?![a-z0-9<])", "-<hash>-"),            # generateName of a replica set's pods
    (r"(pod-template-hash\"?[=:] ?\"?)[a-z0-9]{5,10}\b", r"\1<hash>"),
    (r"(controller-revision-hash\"?[=:] ?\"?)(?:([a-z][a-z0-9-]*)-)?[a-z0-9]{5,10}\b", lambda m: m.group(1) + (m.group(2) + "-" if m.group(2) else "") + "<hash>"),
    (rf"(?<=[a-z0-9>])-{SUF}(?![a-z0-9-])", r"-<r>"),                                # any other generated name
    (r"\.[0-9a-f]{16}\b", ".<eventid>"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"(?m)^(Age|Duration|Lease Duration):(\s+)" + DUR + r"$", r"\1:\2<age>"),
    (r"(x\d+ over )" + DUR, r"\1<age>"),
    (r"took \d+(\.\d+)?m?s", "took <dur>"),
]
NORM = [(re.compile(a), b) for a, b in NORM]
AGECOLS = {"AGE", "LAST SEEN", "FIRST SEEN", "DURATION", "Age", "LAST SCHEDULE"}
DURRE = re.compile(r"^(\d+ \()?" + DUR + r"( ago\))?( \(x\d+ over (?:<age>|" + DUR + r")\))?$")
RESTART = re.compile(r"^(\d+) \(" + DUR + r" ago\)$")


def is_header(line):
    cols = re.split(r" {2,}", line.strip())
    return len(cols) > 1 and all(re.fullmatch(r"[A-Z][A-Z0-9()/:.% -]*", c) for c in cols)


def cells(header, line):
    """cut a table row at the header's column starts (kubectl pads each column with at least 2 blanks)"""
    starts = [m.start() for m in re.finditer(r"(?<!\S)(?<! )\S|(?<=   )\S|(?<=  )\S|^\S", header)]
    starts = sorted(set(m.start() for m in re.finditer(r"(?:^|(?<=  ))\S", header)))
    out = []
    for i, s in enumerate(starts):
        e = starts[i + 1] if i + 1 < len(starts) else None
        if s > 0 and len(line) > s - 1 and line[s - 1] != " ":
            return None
        out.append(line[s:e].strip() if e else line[s:].rstrip())
    return out


def tables(text):
    """Every table (header line of capitals, then rows): ages replaced, columns re-padded to their normalised widths."""
    lines, out, i = text.split("\n"), [], 0
    while i < len(lines):
        if not is_header(lines[i]):
            out.append(lines[i]); i += 1; continue
        h = lines[i]; hc = cells(h, h); rows = []; j = i + 1
        while j < len(lines) and lines[j].strip() and not is_header(lines[j]):
            c = cells(h, lines[j])
            rows.append(c if c else lines[j]); j += 1
        for r in rows:
            if isinstance(r, str):
                continue
            for k, name in enumerate(hc):
                if k < len(r):
                    if name in AGECOLS and DURRE.match(r[k]):
                        r[k] = re.sub(r"^" + DUR, "<age>", r[k])
                    elif name == "RESTARTS" and RESTART.match(r[k]):
                        r[k] = RESTART.sub(r"\1 (<age> ago)", r[k])
        rows_out = [hc] + rows
        w = [max([len(norm_text(r[k])) for r in rows_out if not isinstance(r, str) and k < len(r)] or [0]) for k in range(len(hc))]
        for r in rows_out:
            out.append(r if isinstance(r, str) else "   ".join(norm_text(c).ljust(w[k]) for k, c in enumerate(r)))
        i = j
    return "\n".join(out)


# ages in tables printed without a header (never in "Key:  value" lines of describe)
HEADLESS = re.compile(r" {3,}(\d{1,3}s|\d+m\d+s|\d+h\d+m|\d+d\d+h|\d+d)(?= {3,}\S|$)")


def headless_ages(t):
    out = []
    for l in t.split("\n"):
        if HEADLESS.search(l) and not re.match(r"^\s*[A-Z][\w /()-]*:(\s|$)", l):
            l = re.sub(r"<age> {3,}(?=\S)", "<age>   ", HEADLESS.sub("   <age>", l))
        out.append(l)
    return "\n".join(out)


NS = [""]


def norm_text(t):
    if NS[0]: t = t.replace(NS[0], "{ns}")
    for r, s in NORM:
        t = r.sub(s, t)
    return t


EVROW = re.compile(r"^  (Normal|Warning) ")


def describe_events(text, drop):
    """the Events table at the end of `describe`: ages replaced, rows of the node agent dropped, one blank between columns"""
    out, inside = [], False
    for l in text.split("\n"):
        if re.match(r"^Events:(\s|$)", l):
            inside = True; out.append(l); continue
        if inside and EVROW.match(l):
            c = re.split(r" {2,}", l.strip(), maxsplit=4)
            if len(c) == 5:
                if drop and re.search(drop, c[3]):
                    continue
                c[2] = re.sub(DUR, "<age>", c[2], count=1)
                l = "  " + "  ".join(c)
        elif inside and (l.startswith("  Type ") or l.startswith("  ----")):
            l = "  " + "  ".join(l.split())
        elif inside and l and not l.startswith(" "):
            inside = False
        out.append(l)
    t = "\n".join(out)
    return re.sub(r"(?m)^Events:\n  Type .*\n  ---- .*\n(?!  )", "Events:            <none>\n", t)


def normalise(text, ns, step, subst):
    for k, v in subst:
        text = text.replace(k, v)
    NS[0] = ns
    text = text.replace("\r", "")
    text = describe_events(text, "kubelet|kwok|kube-proxy")
    text = tables(text)
    text = headless_ages(norm_text(text))
    for p in step.get("post", []):
        name, arg = (p, None) if isinstance(p, str) else next(iter(p.items()))
        ls = text.split("\n")
        tail = ls and ls[-1] == ""
        if tail: ls = ls[:-1]
        if name == "sort": ls = sorted(ls)
        elif name == "sortrows": ls = ls[:1] + sorted(ls[1:])
        elif name == "uniq": ls = [l for i, l in enumerate(ls) if i == 0 or ls[i - 1] != l]
        elif name == "drop": ls = [l for l in ls if not re.search(arg, l)]
        elif name == "keep": ls = [l for l in ls if re.search(arg, l)]
        elif name == "squeeze": ls = [re.sub(r" {2,}", "  ", l) for l in ls]
        elif name == "head": ls = ls[:arg]
        elif name == "sub": ls = re.sub(arg[0], arg[1], "\n".join(ls), flags=re.M).split("\n")
        else: raise SystemExit(f"unknown post rule {name}")
        text = "\n".join(ls) + ("\n" if tail and ls else "")
    return "\n".join(l.rstrip() for l in text.split("\n"))


# ---------------------------------------------------------------- running
class Runner:
    def __init__(self, a):
        self.a = a
        self.tmp = tempfile.mkdtemp(prefix="lwgold")
        # The wrapper below stands first in PATH under the name kubectl: a bare name would make it call itself for ever.
        words = shlex.split(a.kubectl)
        found = shutil.which(words[0])
        if not found: raise SystemExit(f"{words[0]}: no such program")
        words[0] = os.path.abspath(found)
        self.bin = f"{self.tmp}/bin"; os.makedirs(self.bin)
        self.home = f"{self.tmp}/home"; os.makedirs(self.home)
        with open(f"{self.bin}/kubectl", "w") as f:
            f.write(f"#!/bin/sh\nexec {shlex.join(words)} \"$@\"\n")
        os.chmod(f"{self.bin}/kubectl", 0o755)
        self.kc = f"{self.tmp}/kubeconfig"
        d = yaml.safe_load(open(a.kubeconfig))
        for c in d.get("clusters", []):                      # relative file names stay valid in the copy
            for k in ("certificate-authority",):
                if k in c["cluster"]: c["cluster"][k] = os.path.join(os.path.dirname(os.path.abspath(a.kubeconfig)), c["cluster"][k])
        for u in d.get("users", []):
            for k in ("client-certificate", "client-key"):
                if k in u["user"]: u["user"][k] = os.path.join(os.path.dirname(os.path.abspath(a.kubeconfig)), u["user"][k])
        self.cfg = d
        self.env = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "EDITOR", "KUBE_EDITOR", "VISUAL") and not k.startswith("KUBECTL_")}
        self.env.update(PATH=self.bin + ":" + os.environ["PATH"], HOME=self.home, KUBECONFIG=self.kc, LC_ALL="C", TZ="UTC")
        self.variant = a.variant
        if self.variant is None and not a.record:
            o = self.sh("kubectl version --client", limit=30)[0]
            m = re.search(r"Client Version: v1\.(\d+)", o)
            self.variant = "1" + m.group(1) if m else None           # kubectl 1.36 -> expect_136 where present, else expect

    def sh(self, cmd, stdin=None, limit=60, cwd=None):
        p = subprocess.Popen(["bash", "-c", cmd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=self.env, cwd=cwd or self.tmp, start_new_session=True)
        try:
            o, e = p.communicate((stdin or "").encode(), timeout=limit)
            return o.decode(errors="replace"), e.decode(errors="replace"), p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            o, e = p.communicate()
            return o.decode(errors="replace"), e.decode(errors="replace") + f"\n<killed after {limit} s>\n", 124

    def set_ns(self, ns):
        d = json.loads(json.dumps(self.cfg))
        for c in d["contexts"]:
            c["context"]["namespace"] = ns
        with open(self.kc, "w") as f:
            yaml.safe_dump(d, f)

    def snapshot_nodes(self):
        o, e, rc = self.sh("kubectl get nodes -o json")
        if rc: return {}
        return {n["metadata"]["name"]: {"labels": n["metadata"].get("labels") or {}, "annotations": n["metadata"].get("annotations") or {},
                                        "taints": n["spec"].get("taints"), "uns": n["spec"].get("unschedulable", False)} for n in json.loads(o)["items"]}

    def restore_nodes(self, before):
        now = self.snapshot_nodes()
        for n in now:
            if n not in before:
                self.sh(f"kubectl delete node {n} --wait=false")
        for n, b in before.items():
            c = now.get(n)
            if c is None or c == b: continue
            lab = {k: None for k in c["labels"] if k not in b["labels"]}; lab.update({k: v for k, v in b["labels"].items() if c["labels"].get(k) != v})
            ann = {k: None for k in c["annotations"] if k not in b["annotations"]}
            body = {"metadata": {"labels": lab, "annotations": ann}, "spec": {"taints": b["taints"], "unschedulable": b["uns"] or None}}
            self.sh(f"kubectl patch node {n} --type=merge -p '{json.dumps(body)}'")

    def session(self, s):
        a = self.a
        ns = "g" + "".join(random.choice("0123456789") for _ in range(2)) + "".join(random.choice("aeiou") for _ in range(4)) + "q"
        self.set_ns(ns)
        cwd = f"{self.tmp}/w-{ns}"; os.makedirs(cwd)
        for n, t in (s.get("files") or {}).items():
            os.makedirs(os.path.dirname(f"{cwd}/{n}"), exist_ok=True)
            with open(f"{cwd}/{n}", "w") as f: f.write(t.replace("{ns}", ns))
        touches = any(re.search(r"\b(taint|cordon|uncordon|drain|(label|annotate|patch|edit|delete) no(de)?s?)\b|ghost", x["run"]) and "--dry-run" not in x["run"] and "nosuch" not in x["run"] for x in s["steps"])
        before = self.snapshot_nodes() if touches else None       # sessions that leave nodes alone may run beside others
        self.sh(f"kubectl create namespace {ns}")
        t = time.time()
        while time.time() - t < 10 * a.slow:
            if self.sh("kubectl get sa default -o name; kubectl get cm kube-root-ca.crt -o name")[0].count("\n") == 2: break
            time.sleep(0.2)
        subst = [(cwd + "/", ""), (cwd, "."), (self.tmp, "<tmp>")]
        res = []; t0 = time.time()
        for i, st in enumerate(s["steps"]):
            w = st.get("wait_until"); werr = ""
            if w:
                end = time.time() + w.get("limit", 30) * a.slow; ok = False; last = ""
                while True:
                    o, e, rc = self.sh(w["run"].replace("{ns}", ns), cwd=cwd, limit=30)
                    last = normalise(o + e, ns, {}, subst)
                    if re.search(w["match"], last, re.S | re.M): ok = True; break
                    if time.time() > end: break
                    time.sleep(0.3)
                if not ok:
                    werr = f"wait_until `{w['run']}` =~ /{w['match']}/ timed out; last output:\n{last}\n"
            if st.get("sleep"): time.sleep(st["sleep"])
            limit = st.get("limit", a.limit) * (a.slow if a.slow > 1 else 1)
            o, e, rc = self.sh(st["run"].replace("{ns}", ns), (st.get("stdin") or "").replace("{ns}", ns), limit, cwd)
            got = {"out": normalise(o, ns, st, subst), "err": normalise(e, ns, {k: v for k, v in st.items() if k != "post"} if not st.get("post_err") else {"post": st["post_err"]}, subst), "rc": rc}
            res.append((st, got, werr))
        for c in s.get("cleanup") or []:
            self.sh(c.replace("{ns}", ns), cwd=cwd)
        if before: self.restore_nodes(before)
        self.sh(f"kubectl delete namespace {ns} --wait=false --ignore-not-found; for n in $(kubectl get ns -o name | grep {ns}-); do kubectl delete $n --wait=false; done")
        t = time.time()
        while time.time() - t < 45 * a.slow:
            o, e, rc = self.sh(f"kubectl get pods -A --no-headers 2>/dev/null | grep '^{ns}'")
            if not o.strip(): break
            time.sleep(0.5)
        shutil.rmtree(cwd, ignore_errors=True)
        return res, time.time() - t0


def expected(st, variant):
    return st.get(f"expect_{variant}") or st.get("expect")


def block(d):
    """plain YAML, multi-line strings as literal blocks"""
    class D(yaml.SafeDumper): pass
    def s(dumper, v):
        return dumper.represent_scalar("tag:yaml.org,2002:str", v, style="|" if "\n" in v else None)
    D.add_representer(str, s)
    return yaml.dump(d, Dumper=D, sort_keys=False, allow_unicode=True, width=100000)


def full(s):
    s = dict(s); s["steps"] = [{"run": x} if isinstance(x, str) else dict(x) for x in s["steps"]]
    return s


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kubectl", default="kubectl"); p.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG", ""))
    p.add_argument("--only", default=""); p.add_argument("--area", default="")
    p.add_argument("--record", action="store_true"); p.add_argument("--variant", help="e.g. 136: whose expect_136 is used or written (default: the client's version)")
    p.add_argument("--limit", type=float, default=60, help="seconds after which a hung command is killed"); p.add_argument("--slow", type=float, default=1.0, help="factor on all time limits")
    p.add_argument("--dir", default=f"{HERE}/transcripts"); p.add_argument("--out", help="write a JSON report"); p.add_argument("-v", action="store_true"); p.add_argument("--list", action="store_true")
    p.add_argument("--maxdiff", type=int, default=14)
    a = p.parse_args()
    ses = []
    for f in sorted(glob.glob(f"{a.dir}/*.yaml")):
        s = full(yaml.safe_load(open(f))); s["_file"] = f
        if a.only and s["name"] not in a.only.split(","): continue
        if a.area and s.get("area") != a.area: continue
        ses.append(s)
    if a.list:
        for s in ses: print(f"{s['name']:32} {s.get('area',''):12} {len(s['steps'])}")
        print(len(ses), "sessions", sum(len(s["steps"]) for s in ses), "steps"); return 0
    if not a.kubeconfig: p.error("--kubeconfig is required")
    r = Runner(a); bad = tot = 0; rep = []
    for n, x in r.snapshot_nodes().items():
        if x["taints"] or x["uns"]: print(f"warning: node {n} is tainted or cordoned before the start: {x['taints']}", file=sys.stderr)
    try:
        for s in ses:
            res, secs = r.session(s); eq = 0; txt = []
            for i, (st, got, werr) in enumerate(res):
                if a.record:
                    if a.variant:
                        st.pop(f"expect_{a.variant}", None)
                        if got != st.get("expect"): st[f"expect_{a.variant}"] = got
                    else:
                        st.pop("expect", None); st["expect"] = got
                    eq += not werr
                    if werr: txt.append(f"  step {i+1}: {werr}")
                    continue
                ex = expected(st, r.variant)
                if ex == got: eq += 1; continue
                d = []
                for k in ("out", "err"):
                    if (ex or {}).get(k, "") != got[k]:
                        d += list(difflib.unified_diff((ex or {}).get(k, "").split("\n"), got[k].split("\n"), f"golden {k}", f"got {k}", lineterm="", n=1))
                if (ex or {}).get("rc") != got["rc"]: d.append(f"exit code: golden {(ex or {}).get('rc')}, got {got['rc']}")
                txt.append(f"  step {i+1}: {st['run'][:200]}\n" + (("    " + werr.replace("\n", "\n    ").rstrip() + "\n") if werr else "") + "\n".join("    " + (l if len(l) < 400 else l[:390] + " …") for l in d[:a.maxdiff]) + (f"\n    … {len(d)-a.maxdiff} more lines" if len(d) > a.maxdiff else ""))
                rep.append({"session": s["name"], "step": i + 1, "run": st["run"], "golden": ex, "got": got, "wait": werr})
            n = len(res); tot += n; bad += n - eq
            print(f"{s['name']:32} steps {n:3} equal {eq:3} differing {n-eq:3}  {secs:5.1f}s", flush=True)
            if txt: print("\n".join(txt), flush=True)
            if a.record:
                f = s.pop("_file")
                with open(f, "w") as fh: fh.write(block(s))
    finally:
        shutil.rmtree(r.tmp, ignore_errors=True)
    print(f"TOTAL sessions {len(ses)} steps {tot} equal {tot-bad} differing {bad}")
    if a.out: json.dump(rep, open(a.out, "w"), indent=1)
    return 1 if bad else 0


sys.exit(main())
