//! The channels of a command's WebSocket (`v4.channel.k8s.io`, `v5.channel.k8s.io`; Kubernetes 1.36). Pure.
//!
//! Every message begins with a byte that names its channel. Version 5 has one more, by which a client closes another:
//! the end of standard input.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

/// Standard input, from the client.
pub(super) const STDIN: u8 = 0;
/// Standard output.
pub(super) const STDOUT: u8 = 1;
/// Standard error.
pub(super) const STDERR: u8 = 2;
/// How it ended, as a Status, once.
pub(super) const ERROR: u8 = 3;
/// The size of the client's terminal.
const RESIZE: u8 = 4;
/// A channel that the client is done with.
const CLOSE: u8 = 255;

/// The protocols, the better one first.
pub(super) const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// What a client says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// These bytes are for standard input.
    Input(Bytes),
    /// Nothing more comes on standard input.
    InputEnds,
    /// Its terminal has so many columns and rows.
    Resize(u16, u16),
    /// Nothing that concerns us: as upstream, it is let pass.
    Nothing,
}

/// The size of a terminal, as clients write it.
#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width")]
    width: u16,
    #[serde(rename = "Height")]
    height: u16,
}

/// Reads a message. `closes`: the protocol has the channel that closes others.
pub(super) fn read(mut message: Bytes, closes: bool) -> Said {
    if message.is_empty() {
        return Said::Nothing;
    }
    let channel = message.split_to(1)[0];
    match channel {
        STDIN => Said::Input(message),
        RESIZE => match serde_json::from_slice::<Size>(&message) {
            Ok(size) => Said::Resize(size.width, size.height),
            Err(_) => Said::Nothing,
        },
        CLOSE if closes && message.as_ref() == [STDIN] => Said::InputEnds,
        _ => Said::Nothing,
    }
}

/// A message on a channel.
pub(super) fn message(channel: u8, bytes: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    message.into()
}

/// The last message of a command that has ended with this code.
pub(super) fn ended(code: i32) -> Bytes {
    let status = match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => {
            let message = format!("command terminated with non-zero exit code: exit status {code}");
            let causes = json!([{"reason": "ExitCode", "message": code.to_string()}]);
            failure("NonZeroExitCode", &message, json!({ "causes": causes }), 500)
        }
    };
    message(ERROR, status.to_string().as_bytes())
}

/// The last message of a command that could not be run.
pub(super) fn failed(why: &str) -> Bytes {
    let message_text = format!("Internal error occurred: error executing command in container: {why}");
    let causes = json!([{"message": format!("error executing command in container: {why}")}]);
    let status = failure("InternalError", &message_text, json!({ "causes": causes }), 500);
    message(ERROR, status.to_string().as_bytes())
}

fn failure(reason: &str, message: &str, details: Value, code: u16) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": details, "code": code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_names_the_channel() {
        let said = |bytes: &[u8]| read(Bytes::copy_from_slice(bytes), true);
        assert_eq!(said(b"\0ls\n"), Said::Input(Bytes::from_static(b"ls\n")));
        assert_eq!(said(b"\0"), Said::Input(Bytes::new()));
        assert_eq!(said(b"\x04{\"Width\":120,\"Height\":40}"), Said::Resize(120, 40));
        assert_eq!(said(b"\xff\0"), Said::InputEnds);
        for other in [&b""[..], b"\x01x", b"\x04{", b"\xff\x01", b"\xff", b"\x09x"] {
            assert_eq!(said(other), Said::Nothing, "{other:?}");
        }
        assert_eq!(read(Bytes::from_static(b"\xff\0"), false), Said::Nothing, "v4 closes nothing");
    }

    #[test]
    fn the_end_is_told_as_clients_read_it() {
        let told = |message: Bytes| -> Value {
            assert_eq!(message[0], ERROR);
            serde_json::from_slice(&message[1..]).expect("a status")
        };
        assert_eq!(told(ended(0))["status"], "Success");
        let failed_so = told(ended(3));
        assert_eq!(failed_so["reason"], "NonZeroExitCode");
        assert_eq!(failed_so["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
        assert_eq!(told(failed("no"))["reason"], "InternalError");
    }
}
