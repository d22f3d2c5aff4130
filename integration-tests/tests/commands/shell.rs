//! Runs commands against a server, as a person's shell would.

use std::io::Write;
use std::process::{Command, Stdio};

use listwatch_integration_tests::{Server, binary};

/// A shell whose commands find the server.
pub(crate) struct Shell<'a> {
    pub(crate) server: &'a Server,
}

impl Shell<'_> {
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(binary::lw());
        command.args(words(args)).env("LW_KUBECONFIG", self.server.data_dir().join("kubeconfig"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command with standard input; standard output, standard error, exit code.
    pub(crate) fn run(&self, args: &str, stdin: &str) -> (String, String, i32) {
        self.run_with(&[], args, stdin)
    }

    /// Runs a command with variables of the environment.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &str, stdin: &str) -> (String, String, i32) {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        let mut child = command.spawn().expect("lw starts");
        let mut pipe = child.stdin.take().expect("piped");
        // A command that is refused at once reads nothing.
        drop(pipe.write_all(stdin.as_bytes()));
        drop(pipe);
        let output = child.wait_with_output().expect("lw ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr), output.status.code().expect("an exit code"))
    }

    /// Runs a command and expects exactly this on standard output and nothing else.
    pub(crate) fn check(&self, args: &str, stdin: &str, expected: &str) {
        assert_eq!(self.run(args, stdin), (expected.to_owned(), String::new(), 0), "lw {args}");
    }

    /// Runs a command and expects it to be refused with exactly this.
    pub(crate) fn refused(&self, args: &str, stdin: &str, expected: &str, code: i32) {
        assert_eq!(self.run(args, stdin), (String::new(), format!("{expected}\n"), code), "lw {args}");
    }
}

/// A table without its ages: cells by columns, AGE as `<age>`.
pub(crate) fn table(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let header: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
    let rows = lines.map(|line| {
        let cells = line.split_whitespace().zip(&header);
        cells.map(|(cell, name)| if *name == "AGE" { "<age>" } else { cell }).collect::<Vec<_>>().join(" ")
    });
    std::iter::once(header.join(" ")).chain(rows).collect()
}

/// Words of a command line; what stands in single quotes belongs to one word.
fn words(line: &str) -> Vec<String> {
    let (mut found, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => found.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}
