//! The demo application: a web server with two pages, which answers like the image `soscscs/myapp`.
//!
//! `/` says which version this is, `/hostname.html` in which pod it runs. Where it listens it is told by the
//! environment: [`POD_IP_ENV`] and the first of [`PORTS_ENV`].

use std::{
    convert::Infallible,
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use jiff::{fmt::strtime, tz::TimeZone};

use super::super::ports::{POD_IP_ENV, PORTS_ENV};
use crate::clock::{Clock, SystemClock};

/// Where it listens when the pod names no port.
const PORT_DEFAULT: u16 = 80;

/// How many requests are answered at once; the next ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;

/// A longer head of a request is refused.
const HEAD_BYTES_MAX: u64 = 8 * 1024;

/// How long a client may take over its request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves for ever.
pub(super) fn serve(version: &str) -> io::Result<Infallible> {
    let address = address();
    let listener = TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("listen on {address}: {error}")))?;
    eprintln!("listening on {address}");
    let site = Arc::new(Site { version: version.to_owned(), host: env::var("HOSTNAME").unwrap_or_default() });
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("accept: {error}");
                continue;
            }
        };
        let (site, busy) = (site.clone(), busy.clone());
        if busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            site.answer(stream, peer);
            busy.fetch_sub(1, Ordering::Relaxed);
        } else {
            thread::spawn(move || {
                site.answer(stream, peer);
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

fn address() -> SocketAddr {
    let ip = env::var(POD_IP_ENV).ok().and_then(|ip| ip.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let ports = env::var(PORTS_ENV).unwrap_or_default();
    let port = ports
        .split(',')
        .next()
        .and_then(|pair| pair.split_once(':'))
        .and_then(|(_, actual)| actual.parse().ok())
        .unwrap_or(PORT_DEFAULT);
    SocketAddr::new(ip, port)
}

struct Site {
    version: String,
    host: String,
}

impl Site {
    fn answer(&self, mut stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_read_timeout(Some(CLIENT_TIMEOUT));
        let _ = stream.set_write_timeout(Some(CLIENT_TIMEOUT));
        // A client that goes away in the middle of its request is no matter of ours.
        let Ok(Some(line)) = head(&stream) else { return };
        let (status, body) = self.page(&line);
        let with_body = !line.starts_with("HEAD ");
        let answer = format!(
            "HTTP/1.1 {status}\r\nServer: listwatch-myapp\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{}",
            body.len(),
            if with_body { &body } else { "" },
        );
        let _ = stream.write_all(answer.as_bytes());
        // The form of the original's access log.
        let time =
            strtime::format("%d/%b/%Y:%H:%M:%S %z", &SystemClock.now().to_zoned(TimeZone::UTC)).unwrap_or_default();
        println!("{} - - [{time}] \"{line}\" {} {}", peer.ip(), &status[..3], body.len());
    }

    fn page(&self, line: &str) -> (&'static str, String) {
        let mut words = line.split(' ');
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default();
        if !matches!(method, "GET" | "HEAD") {
            return ("405 Method Not Allowed", "405 Method Not Allowed\n".into());
        }
        match path.split('?').next() {
            Some("/" | "/index.html") => {
                let version = &self.version;
                ("200 OK", format!("Hello MyApp | Version: {version} | <a href=\"hostname.html\">Pod Name</a>\n"))
            }
            Some("/hostname.html") => ("200 OK", format!("{}\n", self.host)),
            _ => ("404 Not Found", "404 Not Found\n".into()),
        }
    }
}

/// The first line of a request, with all of its head read; `None` if it is none.
fn head(stream: &TcpStream) -> io::Result<Option<String>> {
    let mut reader = BufReader::new(stream.take(HEAD_BYTES_MAX));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let first = first.trim_end().to_owned();
    Ok((!first.is_empty()).then_some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_original() {
        let site = Site { version: "v2".into(), host: "web-1".into() };
        let (status, body) = site.page("GET / HTTP/1.1");
        assert_eq!(status, "200 OK");
        assert_eq!(body, "Hello MyApp | Version: v2 | <a href=\"hostname.html\">Pod Name</a>\n");
        assert_eq!(site.page("GET /hostname.html HTTP/1.1").1, "web-1\n");
        assert_eq!(site.page("GET /x HTTP/1.1").0, "404 Not Found");
        assert_eq!(site.page("POST / HTTP/1.1").0, "405 Method Not Allowed");
    }
}
