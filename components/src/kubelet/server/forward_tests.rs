//! A tunnel with a client made of frames, against a port that answers.

use std::time::Duration;

use tokio::net::TcpListener;

use super::*;

/// The frames that the tunnel has sent, until one ends the stream.
async fn until_end(out: &mut mpsc::Receiver<Bytes>, decoder: &mut Decoder, stream: u32) -> Vec<Frame> {
    let mut seen = Vec::new();
    loop {
        while let Some(frame) = decoder.next().expect("frames") {
            let ends = matches!(&frame, Frame::Data { stream: of, fin: true, .. } if *of == stream);
            seen.push(frame);
            if ends {
                return seen;
            }
        }
        let bytes = tokio::time::timeout(Duration::from_secs(10), out.recv()).await.expect("in time").expect("open");
        decoder.push(&bytes);
    }
}

fn open(stream: u32, kind: &str, port: u16) -> Frame {
    let port = port.to_string();
    let headers = [("streamtype", kind), ("port", port.as_str()), ("requestid", "0")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Frame::Open { stream, fin: kind == "error", headers }
}

fn text_of(frames: &[Frame], stream: u32) -> String {
    let of_stream = frames.iter().filter_map(|frame| match frame {
        Frame::Data { stream: of, data, .. } if *of == stream => Some(String::from_utf8_lossy(data).into_owned()),
        _ => None,
    });
    of_stream.collect()
}

fn ports(actual: &[(u16, u16)]) -> Ports {
    Ports { ip: "127.0.0.1".into(), actual: actual.iter().copied().collect(), pod: "web".into() }
}

#[tokio::test]
async fn a_connection_goes_through_to_where_the_port_really_is_and_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let actual = listener.local_addr().expect("bound").port();
    let pod = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("text");
        stream.write_all(format!("you said {text}").as_bytes()).await.expect("written");
    });
    let (out, mut queue) = mpsc::channel(PIECES_WAITING);
    let mut tunnel = Tunnel::new(ports(&[(80, actual)]), out);
    let mut encoder = Encoder::default();
    let said = [
        open(1, "error", 80),
        open(3, "data", 80),
        Frame::Data { stream: 3, fin: false, data: Bytes::from_static(b"hello ") },
        Frame::Ping { id: 1 },
        Frame::Data { stream: 3, fin: true, data: Bytes::from_static(b"world") },
    ];
    for frame in said {
        tunnel.take(&encoder.encode(&frame)).await.expect("taken");
    }
    let seen = until_end(&mut queue, &mut Decoder::new(), 1).await;
    assert_eq!(seen[..2], [Frame::Reply { stream: 1 }, Frame::Reply { stream: 3 }]);
    assert!(seen.contains(&Frame::Ping { id: 1 }));
    assert_eq!(text_of(&seen, 3), "you said hello world");
    assert_eq!(text_of(&seen, 1), "", "nothing went wrong");
    pod.await.expect("answered");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_on_the_error_stream() {
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("bound").local_addr().expect("bound").port();
    let (out, mut queue) = mpsc::channel(PIECES_WAITING);
    let mut tunnel = Tunnel::new(ports(&[]), out);
    let mut encoder = Encoder::default();
    for frame in [open(1, "error", unused), open(3, "data", unused)] {
        tunnel.take(&encoder.encode(&frame)).await.expect("taken");
    }
    let seen = until_end(&mut queue, &mut Decoder::new(), 3).await;
    let told = text_of(&seen, 1);
    assert!(told.starts_with(&format!("error forwarding port {unused} to pod web: dial tcp 127.0.0.1")), "{told}");
}

#[tokio::test]
async fn streams_that_make_no_sense_are_ended() {
    let (out, mut queue) = mpsc::channel(PIECES_WAITING);
    let mut tunnel = Tunnel::new(ports(&[]), out);
    let mut encoder = Encoder::default();
    let mut decoder = Decoder::new();
    for (stream, kind, port) in [(1, "data", 80), (3, "error", 0), (5, "other", 80)] {
        tunnel.take(&encoder.encode(&open(stream, kind, port))).await.expect("taken");
        decoder.push(&queue.recv().await.expect("an answer"));
        assert_eq!(decoder.next(), Ok(Some(Frame::Reset { stream })));
    }
    assert!(tunnel.take(&[0x80, 2, 0, 1, 0, 0, 0, 0]).await.is_err(), "another version ends the tunnel");
}

#[tokio::test]
async fn channels_begin_with_their_port_and_carry_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let (out, mut queue) = mpsc::channel(PIECES_WAITING);
    let channels = Channels::open(&[port], &ports(&[]), out).await;
    let head = port.to_le_bytes();
    assert_eq!(queue.recv().await.as_deref(), Some(&[0, head[0], head[1]][..]));
    assert_eq!(queue.recv().await.as_deref(), Some(&[1, head[0], head[1]][..]));
    channels.take(Bytes::from_static(b"\0ping")).await;
    let (mut stream, _) = listener.accept().await.expect("a client");
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.expect("four bytes");
    assert_eq!(&bytes, b"ping");
    stream.write_all(b"pong").await.expect("written");
    assert_eq!(queue.recv().await.as_deref(), Some(&b"\0pong"[..]));
}
