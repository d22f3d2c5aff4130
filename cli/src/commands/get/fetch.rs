//! Asks the server for objects of one kind.

use listwatch_components::client::Error;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, ObjectKey, Reason};
use listwatch_proto::v1::{self, Column, ResourceRef, Row, View};

use super::command::Get;
use crate::commands::failure::Failure;

/// Objects of one kind that a command names; no keys: the whole collection.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) kind: &'static Kind,
    pub(super) keys: Vec<ObjectKey>,
}

/// Objects of one kind as the server gave them.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<(Row, v1::Object)>,
    pub(super) revision: i64,
    pub(super) incarnation: String,
    /// Asked for by name: nothing to say when there is none.
    pub(super) is_named: bool,
}

impl Get<'_> {
    pub(super) fn collection(&self, kind: &'static Kind) -> ResourceRef {
        kind.reference(self.session.namespace_of(kind), "")
    }

    /// What the command names, in order.
    pub(super) async fn fetch(&mut self, wanted: &Wanted) -> Result<Answer, Failure> {
        let view = self.view();
        let mut answer = if wanted.keys.is_empty() {
            self.list(wanted.kind, view, 0).await?
        } else {
            self.named(wanted, view).await?
        };
        let Some(key) = self.sort_key.clone() else { return Ok(answer) };
        // A table's rows come without the objects, and any of their fields may be asked for.
        let objects: Vec<Object> = if view == View::Object {
            answer.rows.iter().map(|(_, wire)| decode(wire)).collect::<Result<_, _>>()?
        } else if wanted.keys.is_empty() {
            let same = self.list(wanted.kind, View::Object, answer.revision).await?;
            same.rows.iter().map(|(_, wire)| decode(wire)).collect::<Result<_, _>>()?
        } else {
            let mut objects = Vec::new();
            for (_, wire) in &answer.rows {
                let key = ObjectKey::new(wire.namespace.as_str(), wire.name.as_str());
                objects.push(self.session.api(wanted.kind).get(&key).await?.object);
            }
            objects
        };
        if objects.len() != answer.rows.len() {
            return Err(Failure::plain("the objects changed while they were read: try again"));
        }
        let mut paired: Vec<_> = objects.into_iter().zip(std::mem::take(&mut answer.rows)).collect();
        let sorted = key.sort(&mut paired, |(object, _)| object.clone().into_value());
        match sorted {
            Ok(()) => answer.rows = paired.into_iter().map(|(_, row)| row).collect(),
            // kubectl shows an empty table then.
            Err(_) if view == View::Table => {}
            Err(problem) => return Err(Failure::plain(problem)),
        }
        Ok(answer)
    }

    /// A whole collection; all its pages are of one snapshot: the present one, or that of `exact`.
    async fn list(&self, kind: &'static Kind, view: View, exact: i64) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        let mut continue_token = String::new();
        loop {
            let request = v1::ListRequest {
                resource: Some(self.collection(kind)),
                label_selector: self.args.selector.clone(),
                field_selector: self.args.field_selector.clone(),
                limit: self.args.chunk_size,
                exact_revision: if continue_token.is_empty() { exact } else { 0 },
                continue_token,
                view: view as i32,
                ..v1::ListRequest::default()
            };
            let page = self.session.client.list_wire(request).await.map_err(|e| self.list_failure(kind, e))?;
            if answer.columns.is_empty() {
                answer.columns = page.columns;
            }
            answer.revision = page.revision;
            answer.incarnation = page.header.unwrap_or_default().incarnation;
            let mut rows = page.rows.into_iter();
            answer.rows.extend(page.items.into_iter().map(|item| (rows.next().unwrap_or_default(), item)));
            if page.continue_token.is_empty() {
                return Ok(answer);
            }
            continue_token = page.continue_token;
        }
    }

    /// kubectl says which selection it was that the server did not understand.
    fn list_failure(&self, kind: &Kind, error: Error) -> Failure {
        let has_selector = !(self.args.selector.is_empty() && self.args.field_selector.is_empty());
        if has_selector && error.is(Reason::BadRequest) {
            let version = if kind.group.is_empty() { format!("/{}", kind.version) } else { kind.api_version() };
            let context = format!(
                "Unable to find \"{version}, Resource={}\" that match label selector \"{}\", field selector \"{}\"",
                kind.plural, self.args.selector, self.args.field_selector
            );
            return Failure::during(context, error);
        }
        error.into()
    }

    /// The objects of these names; a failure of one is said and the others are shown.
    async fn named(&mut self, wanted: &Wanted, view: View) -> Result<Answer, Failure> {
        let mut answer = Answer { is_named: true, ..Answer::default() };
        for key in &wanted.keys {
            let request = v1::GetRequest {
                resource: Some(wanted.kind.reference(&key.namespace, &key.name)),
                min_revision: 0,
                view: view as i32,
            };
            match self.session.client.get_wire(request).await {
                Ok(found) => {
                    answer.columns = found.columns;
                    let header = found.header.unwrap_or_default();
                    (answer.revision, answer.incarnation) = (header.revision, header.incarnation);
                    answer.rows.extend(found.object.map(|object| (found.row.unwrap_or_default(), object)));
                }
                Err(error) if error.is_not_found() && self.args.ignore_not_found => {}
                Err(error) => {
                    let error = self.session.explain_missing(wanted.kind, error).await;
                    self.report.fail(error);
                }
            }
        }
        Ok(answer)
    }
}

/// An object as the server sent it.
pub(super) fn decode(wire: &v1::Object) -> Result<Object, Failure> {
    Object::from_slice(&wire.json)
        .map_err(|e| Failure::plain(format!("cannot read {} {} from the server: {e}", wire.kind, quote(&wire.name))))
}
