//! The flags by which commands choose the objects that they change, and the words behind the objects.

use clap::Args;

use super::failure::Failure;
use super::manifest::FileArgs;
use super::selection::{Chosen, Found, Naming};
use super::session::{Session, SessionArgs, parse_targets};

/// Flags that choose objects of a kind.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChoiceArgs {
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(crate) selector: String,
    /// Only objects with these fields
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub(crate) field_selector: String,
    /// Every object of the kind in the namespace
    #[arg(long)]
    pub(crate) all: bool,
    /// Every namespace
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

impl ChoiceArgs {
    /// Whether objects are chosen by labels or fields.
    pub(crate) fn selects(&self) -> bool {
        !self.selector.is_empty() || !self.field_selector.is_empty()
    }
}

/// Flags that choose objects, by files too.
#[derive(Debug, Clone, Args)]
pub(crate) struct SelectionArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    choice: ChoiceArgs,
}

/// The objects chosen.
pub(crate) struct Selection {
    pub(crate) session: Session,
    pub(crate) found: Found,
    /// Exactly one object was named.
    pub(crate) is_one: bool,
}

impl SelectionArgs {
    /// Finds the objects that the words and flags choose.
    ///
    /// # Errors
    /// If they contradict each other.
    pub(crate) async fn select(&self, words: &[String], deed: &str) -> Result<Selection, Failure> {
        if self.choice.all && !self.choice.selector.is_empty() {
            return Err(Failure::usage("cannot set --all and --selector at the same time"));
        }
        if self.choice.all && !self.choice.field_selector.is_empty() {
            return Err(Failure::usage("cannot set --all and --field-selector at the same time"));
        }
        if !words.is_empty() && !self.files.is_empty() {
            let problem = "when paths are provided as input, you may not specify resource arguments as well";
            return Err(Failure::usage(problem));
        }
        // Who has no server yet is told so later; until then only the kinds of the table are known.
        let _ = Session::open(&self.session);
        let named: usize = parse_targets(words)?.iter().map(|target| target.names.len()).sum();
        if named > 0 && (self.choice.all || !self.choice.field_selector.is_empty()) {
            return Err(Failure::usage("name cannot be provided when a selector is specified"));
        }
        let mut session = Session::open(&self.session)?;
        if self.choice.all_namespaces {
            session.namespace.clear();
        }
        let naming = Naming {
            words,
            files: &self.files,
            labels: &self.choice.selector,
            fields: &self.choice.field_selector,
            all: self.choice.all,
        };
        let found = naming.find(&session, deed).await?;
        let is_one = found.chosen.len() + found.failures.len() == 1 && (named == 1 || !self.files.is_empty());
        Ok(Selection { session, found, is_one })
    }
}

impl SelectionArgs {
    /// The objects of the files alone, as they stand there; the server is not asked.
    ///
    /// # Errors
    /// If there is no file, or one cannot be read.
    pub(crate) fn local(&self, deed: &str) -> Result<Selection, Failure> {
        self.files.require()?;
        let session = Session::open(&self.session)?;
        let mut found = Found::default();
        for manifest in self.files.read(&session, deed) {
            match manifest {
                Ok(manifest) => found.chosen.push(Chosen { kind: manifest.kind, object: manifest.object }),
                Err(failure) => found.failures.push(failure),
            }
        }
        Ok(Selection { session, found, is_one: false })
    }
}

/// Splits the words into objects and changes, which come behind them.
///
/// # Errors
/// If an object is named behind a change.
pub(crate) fn split_changes(
    words: &[String],
    what: &str,
    is_change: impl Fn(&str) -> bool,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let first = words.iter().position(|word| is_change(word)).unwrap_or(words.len());
    let (objects, changes) = words.split_at(first);
    if let Some(late) = changes.iter().find(|word| !is_change(word)) {
        return Err(Failure::usage(format!("all resources must be specified before {what} changes: {late}")));
    }
    Ok((objects.to_vec(), changes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_behind_objects() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_change = |word: &str| word.contains('=') || word.ends_with('-');
        let split = split_changes(&words("pod a b=1 c-"), "label", is_change).expect("split");
        assert_eq!(split, (words("pod a"), words("b=1 c-")));
        let late = split_changes(&words("pod b=1 a"), "label", is_change).expect_err("refused").text();
        assert_eq!(late, "error: all resources must be specified before label changes: a");
    }
}
