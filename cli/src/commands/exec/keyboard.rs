//! Standard input, and the terminal that it may be.

use std::io::{Read, stdin};

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// What is read at a time: a screen of text.
const PIECE: usize = 8 << 10;
/// Pieces that wait to be sent: enough to keep the connection busy, and no more than a pipe holds.
const WAITING_MAX: usize = 8;

/// Whether standard input is a terminal.
pub(super) fn is_terminal() -> bool {
    isatty(stdin())
}

/// Pieces of standard input; the end of it ends them.
pub(super) fn pieces() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    // A read cannot be given up: the thread ends with the process, or when nobody wants another piece.
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let count = match stdin().read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The terminal as the other end wants it: every key as it is pressed. It is as before when this is dropped.
pub(super) struct Raw(Termios);

impl Raw {
    /// Sets it so.
    pub(super) fn begin() -> std::io::Result<Raw> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}

/// The terminal's size as the other end reads it; `None`: there is none.
pub(super) fn size() -> Option<String> {
    let size = tcgetwinsize(stdin()).ok().filter(|size| size.ws_col > 0)?;
    Some(format!("{{\"Width\":{},\"Height\":{}}}", size.ws_col, size.ws_row))
}
