//! Clients that take nothing, say nothing, or ask for too much: each costs a bounded amount of memory and time, and those
//! beside them are served.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use listwatch_integration_tests::{Process, Server, binary, eventually};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

use crate::door::{Door, LIMIT, lease};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, MAX_CONCURRENT_STREAMS, RST_STREAM, Raw,
    SETTINGS, head, setting,
};
use crate::raw;
use crate::slow::resident_kb;

const LIST: &str = "/apis/coordination.k8s.io/v1/leases";
const WATCH: &str = "/apis/coordination.k8s.io/v1/leases?watch=1";
const ENHANCE_YOUR_CALM: u32 = 11;
const REFUSED_STREAM: u32 = 7;

/// The list that nobody reads: so many objects of so many bytes.
const OBJECTS: usize = 600;
const OBJECT_BYTES: usize = 10 << 10;
/// Readers at a time, on one connection where it has streams.
const READERS: usize = 80;
/// What one reader may cost: the server's send buffer and a piece beside it, what its socket has taken, and a place for
/// each object, which is shared with the store. The list itself is 6 MiB.
const READER_KB_MAX: u64 = (256 + 64 + 64 + OBJECTS as u64 * 128 / 1024) + 64;
/// What may stay when they have gone: what the allocator keeps without being asked again, and what runs beside.
const STAYS_KB_MAX: u64 = 56 << 10;

/// A server that also listens in plain text, without a disk.
fn server(flags: &[&str]) -> Server {
    let own = ["--insecure-resource-port", "0", "--durability", "memory"];
    Server::start(&[&own[..], flags].concat()).expect("a server")
}

/// An answer over HTTP/1.1 in plain text, on a connection of its own.
fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[track_caller]
fn is_served(address: SocketAddr) {
    let began = Instant::now();
    let answer = get(address, "/apis/coordination.k8s.io/v1/namespaces/default/leases/l0").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"l0\""), "{answer:.200}");
    assert!(began.elapsed() < LIMIT, "after {:?}", began.elapsed());
}

async fn fill(server: &Server) {
    let door = Door::admin(server);
    let padding = "x".repeat(OBJECT_BYTES);
    let writers = (0..16).map(|writer| {
        let (door, padding) = (door.clone(), padding.clone());
        tokio::spawn(async move {
            for number in (writer..OBJECTS).step_by(16) {
                let mut body = lease(&format!("l{number}"), json!({}));
                body["spec"]["holderIdentity"] = json!(padding);
                door.create("leases", &body).await.expect("created");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_cost_little_and_leave_nothing_behind() {
    let mut server = server(&[]);
    fill(&server).await;
    let (plain, client) = (server.address("insecure"), server.client_address());
    // The first list makes the cache of the kind.
    assert!(get(plain, LIST).expect("a list").len() > OBJECTS * OBJECT_BYTES);
    // Everything: a RangeRequest from the first key to the last.
    let range = [0, 0, 0, 0, 6, 0x0a, 1, 0, 0x12, 1, 0];
    type Readers = Vec<TcpStream>;
    let ways: [(&str, &dyn Fn() -> Readers); 4] = [
        ("HTTP/2", &|| {
            let mut one = Raw::connect(plain);
            (0..READERS as u32).for_each(|number| one.get(2 * number + 1, LIST));
            vec![one.0]
        }),
        ("a streaming list", &|| {
            let mut one = Raw::connect(plain);
            let path = format!("{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
            (0..READERS as u32).for_each(|number| one.get(2 * number + 1, &path));
            vec![one.0]
        }),
        ("etcd's Range", &|| {
            let mut one = Raw::connect(client);
            (0..READERS as u32).for_each(|number| one.call(2 * number + 1, "/etcdserverpb.KV/Range", &range, true));
            vec![one.0]
        }),
        ("HTTP/1.1", &|| {
            let one = || {
                let mut stream = TcpStream::connect(plain).expect("the server listens");
                stream.write_all(format!("GET {LIST} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).expect("sent");
                stream
            };
            (0..READERS).map(|_| one()).collect()
        }),
    ];
    let before = resident_kb(&mut server);
    for (way, open) in ways {
        let readers = open();
        // Until nothing grows any more, with a client beside them.
        let (mut last, mut looks) = (0, 0);
        while looks < 10 {
            thread::sleep(Duration::from_millis(100));
            is_served(plain);
            let now = resident_kb(&mut server);
            looks = if now > last + 512 { 0 } else { looks + 1 };
            last = last.max(now);
        }
        let cost = last.saturating_sub(before);
        assert!(cost < READER_KB_MAX * READERS as u64 + STAYS_KB_MAX, "{way}: {cost} kB");
        drop(readers);
        let deadline = Instant::now() + LIMIT;
        while resident_kb(&mut server).saturating_sub(before) > STAYS_KB_MAX {
            let stays = resident_kb(&mut server).saturating_sub(before);
            assert!(Instant::now() < deadline, "{way}: {stays} kB of {cost} kB stay");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_has_so_many_streams_and_no_more() {
    let server = server(&["--http2-max-streams-per-connection", "7", "--max-concurrent-streams", "9"]);
    for (address, most) in [(server.address("insecure"), 7), (server.client_address(), 9)] {
        let mut raw = Raw::connect(address);
        let settings = raw.until(|frame| frame.kind == SETTINGS && !frame.payload.is_empty()).expect("settings");
        assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), Some(most));
    }
    let mut raw = Raw::connect(server.address("insecure"));
    for number in 0..7 {
        raw.get(2 * number + 1, WATCH);
    }
    let mut answered = 0;
    while answered < 7 {
        answered += u32::from(raw.next().expect("a frame").kind == HEADERS);
    }
    raw.get(15, WATCH);
    let refused = raw.until(|frame| frame.kind == RST_STREAM).expect("a refusal");
    assert_eq!((refused.stream, refused.number(0)), (15, REFUSED_STREAM));
    // One that ends makes room.
    raw.send(RST_STREAM, 0, 1, &8u32.to_be_bytes());
    raw.get(17, WATCH);
    assert!(raw.until(|frame| frame.stream == 17).is_some_and(|frame| frame.kind == HEADERS));
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_beyond_what_a_connection_has_go_over_another() {
    let server = server(&[]);
    let client = crate::door::admin(&server);
    let mut watches = Vec::new();
    for _ in 0..250 {
        watches.push(client.watch_wire(crate::door::leases()).await.expect("a watch"));
    }
    let door = Door::of(&client);
    door.create("leases", &lease("l0", json!({}))).await.expect("a call has a place beside them");
    for watch in &mut watches {
        let seen = async {
            while watch.next().await.expect("open").expect("no end").events.iter().all(|event| event.object.is_none()) {
            }
        };
        tokio::time::timeout(LIMIT, seen).await.expect("each of them hears of it");
    }
}

/// What a client does that stops in the middle, and what it hears.
fn stalls(
    name: &'static str,
    begin: impl FnOnce() -> TcpStream + Send + 'static,
) -> thread::JoinHandle<(&'static str, Vec<u8>)> {
    thread::spawn(move || {
        let mut stream = begin();
        stream.set_read_timeout(Some(Duration::from_secs(50))).expect("a socket");
        let mut heard = Vec::new();
        let ended = stream.read_to_end(&mut heard);
        assert!(ended.is_ok() || !heard.is_empty(), "{name}: {ended:?}");
        (name, heard)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stop_in_the_middle_are_let_go_in_time() {
    let server = server(&[]);
    let (plain, client, secure) = (server.address("insecure"), server.client_address(), server.secure_address());
    let began = Instant::now();
    let said = |address: SocketAddr, words: &'static str| {
        move || {
            let mut stream = TcpStream::connect(address).expect("the server listens");
            stream.write_all(words.as_bytes()).expect("sent");
            stream
        }
    };
    let half = |address: SocketAddr, path: &'static str| {
        move || {
            let mut raw = Raw::connect(address);
            // A message of 100 bytes, of which 10 come.
            raw.call(1, path, &[&[0, 0, 0, 0, 100][..], &[7; 10]].concat(), false);
            let is_end = |frame: &Frame| frame.stream == 1 && frame.kind == HEADERS && frame.flags & END_STREAM != 0;
            assert!(raw.until(is_end).is_some(), "{path}: an answer");
            // The end of a connection that has nothing more to say is its client's.
            raw.0.shutdown(std::net::Shutdown::Write).expect("open");
            raw.0
        }
    };
    let stalled = [
        stalls("nothing", said(plain, "")),
        stalls("half a preface", said(client, "PRI * HTTP/2.0\r\n")),
        stalls("no handshake", said(secure, "")),
        stalls("half a handshake", said(secure, "\x16\x03\x01")),
        stalls("half a head", said(plain, "GET /api HTTP/1.1\r\nhost: x\r\n")),
        stalls("half a body", said(plain, "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")),
        stalls("half a Put", half(client, "/etcdserverpb.KV/Put")),
        stalls("half a Create", half(plain, "/listwatch.v1.Resources/Create")),
        stalls("half a WatchRequest", half(client, "/etcdserverpb.Watch/Watch")),
    ];
    // A watch of which only the beginning is silent is none of them.
    let mut quiet = Raw::connect(client);
    quiet.call(1, "/etcdserverpb.Watch/Watch", &[], false);
    for one in stalled {
        let (name, heard) = tokio::task::spawn_blocking(|| one.join()).await.expect("joined").expect("let go");
        if name == "half a body" {
            assert!(heard.starts_with(b"HTTP/1.1 408"), "{name}: {:?}", String::from_utf8_lossy(&heard));
        }
    }
    assert!(began.elapsed() < Duration::from_secs(45), "after {:?}", began.elapsed());
    let create = [0x0a, 3, 0x0a, 1, b'k'];
    quiet.send(DATA, 0, 1, &[&[0, 0, 0, 0, 5][..], &create].concat());
    assert!(quiet.until(|frame| frame.kind == DATA && frame.stream == 1).is_some(), "the watch is made");
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_their_own_connection_and_nobody_elses() {
    let mut server = server(&[]);
    Door::admin(&server).create("leases", &lease("l0", json!({}))).await.expect("created");
    for address in [server.address("insecure"), server.client_address()] {
        // Streams that are reset as soon as they are asked for.
        let mut raw = Raw::connect(address);
        let asked = head("GET", "/version", &[]);
        for number in 0..5000u32 {
            let stream = 2 * number + 1;
            let sent = raw.try_send(HEADERS, END_STREAM | END_HEADERS, stream, &asked);
            if sent.and_then(|()| raw.try_send(RST_STREAM, 0, stream, &8u32.to_be_bytes())).is_err() {
                break;
            }
        }
        if let Some(end) = raw.until(|frame| frame.kind == GOAWAY) {
            assert_eq!(end.number(4), ENHANCE_YOUR_CALM, "{end:?}");
        }
        // A head that never ends.
        let mut raw = Raw::connect(address);
        raw.send(HEADERS, END_STREAM, 1, &asked);
        let field = [&[0, 1, b'a', 100][..], &[b'x'; 100]].concat().repeat(100);
        let mut sent = 0;
        while sent < 64 << 20 && raw.try_send(CONTINUATION, 0, 1, &field).is_ok() {
            sent += field.len();
        }
        assert!(sent < 16 << 20, "{sent} bytes of a head were taken");
        // Frames of nothing.
        let mut raw = Raw::connect(address);
        raw.send(HEADERS, END_STREAM, 1, &asked);
        let mut sent = 0;
        while sent < 1_000_000 && raw.try_send(CONTINUATION, 0, 1, &[]).is_ok() {
            sent += 1;
        }
        assert!(sent < 1_000_000, "a head of nothing is taken for ever");
    }
    is_served(server.address("insecure"));
    assert!(resident_kb(&mut server) < 300 << 10, "floods leave nothing behind");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_descriptors_waits_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut command = Command::new(binary::lw());
    command.args(["server", "--ready-json", "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0"]);
    command.args(["--insecure-resource-port", "0", "--data-dir"]).arg(&data);
    let limit = Rlimit { current: Some(160), maximum: Some(160) };
    // Safety: the call between fork and exec is one to the system, and takes no lock.
    unsafe { command.pre_exec(move || setrlimit(Resource::Nofile, limit).map_err(Into::into)) };
    let server = Process::spawn("server", folder.path(), command).expect("a server");
    let (plain, secure) = (server.address("insecure"), server.address("secure"));
    assert!(get(plain, "/readyz").expect("an answer").starts_with("HTTP/1.1 200"));
    let crowd: Vec<_> = [plain, secure, server.address("client")]
        .into_iter()
        .flat_map(|address| (0..100).map(move |_| TcpStream::connect(address).expect("the kernel takes it")))
        .collect();
    let spent = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the process is there");
        let fields: Vec<u64> =
            stat.rsplit(')').next().expect("fields").split(' ').filter_map(|f| f.parse().ok()).collect();
        // utime and stime, counted without the two fields of text.
        fields[10] + fields[11]
    };
    let before = spent();
    thread::sleep(Duration::from_secs(2));
    assert!(spent() - before < 100, "{} ticks for waiting", spent() - before);
    drop(crowd);
    eventually(LIMIT, "who comes later is served", async || {
        get(plain, "/readyz")
            .map_err(|e| e.to_string())
            .and_then(|text| if text.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(text) })
    })
    .await;
    let log = std::fs::read_to_string(&server.log).expect("a log");
    assert!(!log.contains("panicked"), "{log}");
    assert!(log.matches("connections cannot be accepted").count() < 20, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_heads_are_taken_and_endless_ones_refused() {
    let server = server(&[]);
    let channel = raw::nobody(&server);
    let long = "x".repeat(60 << 10);
    let (code, text) = raw::get(&channel, &format!("/version?a={long}")).await;
    assert_eq!(code, 200, "{text:.200}");
    let mut stream = TcpStream::connect(server.address("insecure")).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let field = format!("a: {}\r\n", "x".repeat(1000));
    let mut sent = stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n");
    for _ in 0..2000 {
        sent = sent.and_then(|()| stream.write_all(field.as_bytes()));
    }
    let mut answer = Vec::new();
    let heard = stream.read_to_end(&mut answer);
    assert!(sent.is_err() || answer.starts_with(b"HTTP/1.1 431"), "{heard:?} {:?}", String::from_utf8_lossy(&answer));
}
