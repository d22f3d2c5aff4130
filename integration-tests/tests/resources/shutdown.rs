//! The end of a server that is in use: what was begun is ended with a word, what was answered is kept.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use listwatch_integration_tests::{Server, eventually};
use serde_json::json;

use crate::door::{Door, LIMIT, admin, lease, leases};
use crate::frames::{END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw};

const WATCH: &str = "/apis/coordination.k8s.io/v1/leases?watch=1";
/// Streams of one connection.
const WATCHES: usize = 100;
/// Within this time a server ends: three seconds for streams and calls, the rest for a busy machine.
const END_MAX: Duration = Duration::from_secs(8);

/// Writes until the server is gone; answers what it has acknowledged.
async fn write(door: Door, writer: usize, written: Arc<AtomicUsize>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("w{writer}-{number}");
        if door.create("leases", &lease(&name, json!({}))).await.is_err() {
            break;
        }
        acknowledged.push(name);
        written.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_use_ends_in_time_and_with_a_word_to_everybody() {
    let mut server = Server::start(&["--insecure-resource-port", "0"]).expect("a server");
    let plain = server.address("insecure");
    // Watches over HTTP/2, HTTP/1.1 and gRPC, and a client that holds half a request.
    let mut raw = Raw::connect(plain);
    (0..WATCHES as u32).for_each(|number| raw.get(2 * number + 1, WATCH));
    let mut begun = 0;
    while begun < WATCHES {
        begun += usize::from(raw.next().expect("a frame").kind == HEADERS);
    }
    let mut plain_watch = TcpStream::connect(plain).expect("the server listens");
    plain_watch.write_all(format!("GET {WATCH} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).expect("sent");
    let mut head = [0; 12];
    plain_watch.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    let mut wire = admin(&server).watch_wire(leases()).await.expect("a watch");
    let mut half = TcpStream::connect(plain).expect("the server listens");
    half.write_all(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{").expect("sent");
    let written = Arc::new(AtomicUsize::new(0));
    let door = Door::admin(&server);
    let writers: Vec<_> = (0..8).map(|n| tokio::spawn(write(door.clone(), n, written.clone()))).collect();
    eventually(LIMIT, "some are written", async || {
        let written = written.load(Ordering::Relaxed);
        if written > 50 { Ok(()) } else { Err(written) }
    })
    .await;

    let began = Instant::now();
    server.process().stop().expect("a clean end");
    assert!(began.elapsed() < END_MAX, "after {:?}", began.elapsed());

    let (mut ended, mut said_goodbye) = (0, false);
    while let Some(frame) = raw.next() {
        assert!(frame.kind != RST_STREAM, "{frame:?}");
        said_goodbye |= frame.kind == GOAWAY && frame.number(4) == 0;
        ended += usize::from(frame.stream != 0 && frame.flags & END_STREAM != 0);
    }
    assert_eq!((ended, said_goodbye), (WATCHES, true));
    let mut rest = String::new();
    plain_watch.read_to_string(&mut rest).expect("a clean end");
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
    let end = async {
        loop {
            if let Err(error) = wire.next().await.map(|message| message.expect("the end is told")) {
                break error.to_string();
            }
        }
    };
    let told = tokio::time::timeout(LIMIT, end).await.expect("an end");
    assert!(told.contains("the server is stopping; watch again from the last revision"), "{told}");

    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.expect("it ends"));
    }
    server.kill_and_restart().expect("a start");
    let door = Door::admin(&server);
    for name in acknowledged {
        door.get("leases", "default", &name).await.unwrap_or_else(|error| panic!("{name} is lost: {error}"));
    }
}
