//! The machine as a guest finds it: files below what is granted, no environment, no time, no chance, and an end to everything it piles up.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use kit::prober::Prober;
use kit::small;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tidegate_api::ErrorKind;
use tidegate_host::Limits;

/// A directory that is granted as `/in`, read-only, with a secret beside it and links that lead out.
fn granted() -> (tempfile::TempDir, Prober) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("in/below")).unwrap();
    fs::write(dir.path().join("in/rows.txt"), "rows").unwrap();
    fs::write(dir.path().join("secret.txt"), "secret").unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(dir.path().join("secret.txt"), dir.path().join("in/absolute")).unwrap();
        std::os::unix::fs::symlink("../secret.txt", dir.path().join("in/relative")).unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("in/up")).unwrap();
    }
    let prober = Prober::new().based(dir.path()).granted(json!({ "dirs": ["in=/in"] }));
    (dir, prober)
}

fn read(path: &str) -> Value {
    json!({ "do": "read", "path": path })
}

#[test]
fn a_granted_directory_is_read_and_nothing_beside_it() {
    let (dir, prober) = granted();
    assert_eq!(prober.finds(read("/in/rows.txt")), "rows");
    assert_eq!(prober.finds(read("/in/below/../rows.txt")), "rows", "up and down within it is within it");
    let secret = dir.path().join("secret.txt");
    for path in [secret.to_str().unwrap(), "/secret.txt", "secret.txt", "/etc/passwd", "/proc/self/environ", "/"] {
        prober.fails(read(path));
    }
    prober.fails(json!({ "do": "list", "path": "/" }));
    prober.fails(json!({ "do": "list", "path": dir.path() }));
}

#[test]
fn nothing_is_read_without_a_grant() {
    for path in ["/etc/passwd", "/", ".", "/proc/self/environ", "/dev/zero"] {
        Prober::new().fails(read(path));
        Prober::new().fails(json!({ "do": "list", "path": path }));
    }
}

#[test]
fn dots_do_not_lead_out() {
    let (_dir, prober) = granted();
    for path in
        ["/in/../secret.txt", "/in/below/../../secret.txt", "/in/./../secret.txt", "/in/rows.txt/../../secret.txt", "/in//../../etc/passwd"]
    {
        prober.fails(read(path));
    }
    prober.fails(json!({ "do": "list", "path": "/in/.." }));
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out() {
    let (_dir, prober) = granted();
    for path in ["/in/absolute", "/in/relative", "/in/up/secret.txt"] {
        prober.fails(read(path));
    }
    prober.fails(json!({ "do": "list", "path": "/in/up" }));
}

#[test]
fn a_guest_makes_no_link_that_leads_out() {
    let (dir, prober) = granted();
    let writable = prober.granted(json!({ "dirs": ["in=/in:rw"] }));
    let secret = dir.path().join("secret.txt");
    // An absolute link is refused; one that climbs may be made, and is not followed.
    writable.fails(json!({ "do": "link", "to": secret, "at": "mine" }));
    let attempts = writable.attempt(json!([{ "do": "link", "to": "../secret.txt", "at": "climbs" }, read("/in/climbs")]));
    assert!(!attempts[1].succeeded, "{attempts:?}");
    let attempts = writable.attempt(json!([{ "do": "link", "to": "..", "at": "parent" }, { "do": "write", "path": "/in/parent/new.txt" }]));
    assert!(!attempts[1].succeeded && !dir.path().join("new.txt").exists(), "{attempts:?}");
}

#[test]
fn a_read_only_grant_is_not_written_to() {
    let (dir, prober) = granted();
    for probe in [
        json!({ "do": "write", "path": "/in/new.txt" }),
        json!({ "do": "write", "path": "/in/rows.txt" }),
        json!({ "do": "move", "from": "/in/rows.txt", "to": "/in/gone.txt" }),
        json!({ "do": "link", "to": "rows.txt", "at": "linked" }),
    ] {
        prober.fails(probe);
    }
    assert_eq!(fs::read_to_string(dir.path().join("in/rows.txt")).unwrap(), "rows");
    assert!(!dir.path().join("in/new.txt").exists() && !dir.path().join("in/linked").exists());
    let writable = prober.granted(json!({ "dirs": ["in=/in:rw"] }));
    writable.finds(json!({ "do": "write", "path": "/in/new.txt" }));
    assert!(dir.path().join("in/new.txt").exists());
    writable.fails(json!({ "do": "write", "path": "/in/../new.txt" }));
    writable.fails(json!({ "do": "move", "from": "/in/new.txt", "to": "/in/../moved.txt" }));
}

#[test]
fn of_the_environment_a_guest_sees_what_is_granted_by_name() {
    let look_up = |name: &str| Some(format!("value of {name}"));
    let prober = Prober::new().environment(look_up);
    assert_eq!(prober.finds(json!({ "do": "environment" })), "[] []");
    let granted = prober.granted(json!({ "env": ["REGION"] }));
    assert_eq!(granted.finds(json!({ "do": "environment" })), "[(\"REGION\", \"value of REGION\")] []");
    assert!(std::env::vars().count() > 0, "there was something to find");
}

#[test]
fn time_and_chance_are_asked_for() {
    for (probe, grant) in [("wall-time", "clock"), ("random", "random")] {
        let text = Prober::new().ends_with(json!({ "do": probe })).to_string();
        assert!(text.contains(&format!("set `{grant} = true` in `allow` of [plugins.stranger]")), "{text}");
        Prober::new().granted(json!({ grant: true })).finds(json!({ "do": probe }));
    }
    // A hash map's seed and a stopwatch tell nothing and are there.
    Prober::new().finds(json!({ "do": "harmless-chance" }));
}

#[test]
fn handles_without_end_stop_at_their_limit() {
    let mut limits = Limits::default();
    limits.handles = 100;
    let error = Prober::new().limited(limits).ends_with(json!({ "do": "handles" }));
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("its 100 handles") && error.to_string().contains("limits.handles"), "{error}");
}

#[test]
fn output_that_grows_stops_at_its_limit() {
    let mut limits = small();
    limits.memory = 64 << 20;
    limits.deadline = Duration::from_secs(10);
    let prober = Prober::new().limited(limits);
    assert_eq!(prober.finds(json!({ "do": "grow", "bytes": 100_000 })).len(), 100_000);
    let error = prober.ends_with(json!({ "do": "grow", "bytes": 4 << 20 }));
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("output limit of 1MiB"), "{error}");
    let error = prober.ends_with(json!({ "do": "grow", "bytes": 1 << 30 }));
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("limits.memory"), "{error}");
}

#[test]
fn a_flood_of_log_lines_is_cut_and_counted() {
    let prober = Prober::new();
    let plugin = prober.load();
    let mut reader = prober.reader(&plugin, &json!([{ "do": "log", "lines": 5000 }]), false);
    reader.poll(tidegate_api::PollRequest { max_rows: 10, max_bytes: 1 << 20, wait: Duration::ZERO }).unwrap();
    assert!(plugin.metrics().log_lines_dropped() > 9000, "{}", plugin.metrics().log_lines_dropped());
}

#[test]
fn a_guest_leaves_nothing_behind_on_this_machine() {
    let before = Path::new("prober").exists();
    Prober::new().fails(json!({ "do": "write", "path": "prober" }));
    assert_eq!(Path::new("prober").exists(), before);
}
