//! Static bearer tokens: the file of kube-apiserver's `--token-auth-file`.
//!
//! One line for each token: `token,user,uid` and, if wanted, `"group1,group2"`. Read once, at the start.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::AUTHENTICATED;
use crate::registry::User;

/// A token file that cannot be used.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("--token-auth-file: read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is wrong.
    #[error("--token-auth-file: {}:{line}: {reason} (a line is: token,user,uid,\"group1,group2\")", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The users by token.
#[derive(Clone, Default)]
pub struct Tokens {
    /// The map's own keyed hash keeps the time of a look-up from telling how much of a token was right.
    users: HashMap<String, Arc<User>>,
}

impl fmt::Debug for Tokens {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("count", &self.users.len()).finish()
    }
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is wrong; the message names file and line.
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|(line, reason)| TokenFileError::Line { path: path.to_owned(), line, reason })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut users = HashMap::new();
        for (line, content) in text.lines().enumerate().map(|(n, l)| (n + 1, l.trim())) {
            if content.is_empty() {
                continue;
            }
            let fields = fields(content).map_err(|reason| (line, reason))?;
            let (token, name, uid, groups) = match fields.as_slice() {
                [token, name, uid] => (token, name, uid, ""),
                [token, name, uid, groups] => (token, name, uid, groups.as_str()),
                [_, _, _, _, ..] => return Err((line, "more than four fields; several groups stand in quotes")),
                _ => return Err((line, "fewer than three fields")),
            };
            if token.is_empty() {
                return Err((line, "the token is empty"));
            }
            if name.is_empty() {
                return Err((line, "the user is empty"));
            }
            let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty());
            let groups = groups.chain([AUTHENTICATED]).map(str::to_owned).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            if users.insert(token.clone(), Arc::new(user)).is_some() {
                return Err((line, "the token stands in an earlier line already"));
            }
        }
        Ok(Tokens { users })
    }

    /// The user of a token, with the group of everybody who has proved who it is.
    pub fn user(&self, token: &str) -> Option<&Arc<User>> {
        self.users.get(token)
    }
}

/// The fields of a CSV line (RFC 4180); blanks around a field do not count.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim_end().to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.trim_start() {
            "" => return Ok(fields),
            more => rest = more.strip_prefix(',').ok_or("text behind a closing quote")?,
        }
    }
}

/// The text up to the closing quote, and what is behind it; two quotes are one.
fn quoted_field(mut rest: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote that does not close")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_kube_apiserver_reads_them() {
        let tokens =
            Tokens::parse("t1,alice,1\n\n t2 , bob, 2, \"dev, \"\"ops\"\"\"\nt3,eve,,system:masters\n").unwrap();
        let user = |name: &str, uid: &str, groups: &[&str]| {
            let groups = groups.iter().chain(&[AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
            Some(User { name: name.into(), uid: uid.into(), groups, ..User::default() })
        };
        let known = |token: &str| tokens.user(token).map(|user| User::clone(user));
        assert_eq!(known("t1"), user("alice", "1", &[]));
        assert_eq!(known("t2"), user("bob", "2", &["dev", "\"ops\""]));
        assert_eq!(known("t3"), user("eve", "", &["system:masters"]));
        assert_eq!(known("t"), None);
        assert!(!format!("{tokens:?}").contains("t1"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line) in [
            ("t1,alice", 1),
            ("t1,alice,1\nt1,bob,2", 2),
            (",alice,1", 1),
            ("t,,1", 1),
            ("t,a,1,g,h", 1),
            ("\nt,a,1,\"g", 2),
            ("t,a,1,\"g\"h", 1),
        ] {
            assert_eq!(Tokens::parse(text).map(|_| ()).map_err(|(l, _)| l), Err(line), "{text:?}");
        }
    }
}
