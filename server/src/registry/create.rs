//! Create: an object comes to life.

use std::borrow::Cow;

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Object, Reason, Status, time};
use rand::Rng;

use super::apply::Sent;
use super::authorship::Authorship;
use super::body::{self, Expected};
use super::current::{Beside, Current, ROUNDS_MAX};
use super::custom::stored;
use super::kinds::{Faults, Part, Strategy, View, strategy, validate_new_metadata};
use super::{Change, ChangeVerb, Commit, Guard, Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// What generated names are made of: no vowels, so that no words come out (Kubernetes 1.36).
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Letters behind the given prefix.
const NAME_SUFFIX: usize = 5;
/// What is kept of the prefix, so that the name fits into a label.
const NAME_PREFIX_MAX: usize = 63 - NAME_SUFFIX;
/// How often another name is tried.
const NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Decodes, admits, validates and stores a new object.
    pub(super) async fn create_object(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let api_version = target.kind.api_version();
        let expected = Expected::of(target.kind, &api_version);
        let body = body::read(expected, body, options.field_validation)?;
        let mut warnings = body.warnings;
        match self.create_decoded(context, target, (body.object, &body.managed), options, &mut warnings).await {
            Ok(object) => Ok(Written { revision: self.revision(), object, created: true, warnings }),
            Err(status) => Err(status.beside(warnings)),
        }
    }

    async fn create_decoded(
        &self,
        context: &RequestContext,
        target: &Target,
        (mut object, managed): (Object, &Sent),
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<StoredObject, Status> {
        let kind = target.kind;
        let rules = strategy(kind);
        self.place(target, &mut object)?;
        if !target.name.is_empty() && target.name != object.name() {
            return Err(super::update::wrong_name(object.name(), &target.name));
        }
        if object.revision() != 0 {
            return Err(Status::without_reason("resourceVersion should not be set on objects to be created"));
        }
        rules.default(&mut object);
        Authorship::of(self, context, target, Part::Main, options).sign(None, &mut object, managed);
        object = kept(rules, object);
        self.give_birth(context, target, object, options.dry_run, warnings).await
    }

    /// Puts the object into the namespace it was sent to.
    pub(super) fn place(&self, target: &Target, object: &mut Object) -> Result<(), Status> {
        if !target.kind.namespaced {
            object.remove(&["metadata", "namespace"]);
            return Ok(());
        }
        let (sent, own) = (target.namespace.as_str(), object.namespace().to_owned());
        match (sent, own.as_str()) {
            ("", "") => Err(Status::bad_request("an empty namespace may not be set during creation")),
            (sent, "") => {
                object.set(&["metadata", "namespace"], sent);
                Ok(())
            }
            ("", _) => Ok(()),
            (sent, own) if sent == own => Ok(()),
            _ => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    /// Stores a decoded and defaulted object as a new one.
    pub(super) async fn give_birth(
        &self,
        context: &RequestContext,
        target: &Target,
        mut object: Object,
        dry_run: bool,
        warnings: &mut Vec<String>,
    ) -> Result<StoredObject, Status> {
        let kind = target.kind;
        let rules = strategy(kind);
        self.fill_in(rules, &mut object);
        rules.name_requester(&mut object, &context.user);
        let prefix = generated_prefix(&object);
        let mut places = self.admit_into_place(kind, &object).await?;
        self.admit(kind, &mut object).await?;
        let (verb, asked_name) = (ChangeVerb::Create, target.name.as_str());
        let change = Change { verb, kind, subresource: "", asked_name, new: Some(&object), old: None };
        self.admit_change(context, &change).await?;
        // What a kind prepares may tell the name, so that it is prepared anew for each one that is tried.
        let draft = prefix.is_some().then(|| object.clone());
        let prepared = |mut object: Object| {
            if let Some(prefix) = &prefix {
                object.set(&["metadata", "name"], generated_name(prefix));
            }
            rules.prepare_create(&mut object).map_err(|why| Status::forbidden(kind, object.name(), &why))?;
            Ok::<_, Status>(object)
        };
        object = prepared(object)?;
        let mut attempts = 1;
        let mut rounds = 0;
        loop {
            // What is handed out is drawn anew in each round.
            let asked = rules.allocation().map(|_| object.clone());
            self.allot(kind, &mut object, None, dry_run).await?;
            let mut faults = Faults::new();
            validate_new_metadata(kind, rules, &object, &mut faults);
            rules.validate_create(&object, &mut faults);
            if !faults.is_empty() {
                return Err(Status::invalid(judged_as(kind, rules), object.name(), faults.into_causes()));
            }
            let mut beside = self.admit_valid(kind, Part::Main, &object, None).await?;
            beside.guards.extend(places.clone());
            rules.canonicalize(&mut object);
            match self.insert(context, kind, &object, beside, dry_run).await? {
                Inserted::Done(stored) => {
                    warnings.extend(rules.warnings(&object));
                    return Ok(stored);
                }
                Inserted::Exists(existing) => match &draft {
                    Some(draft) if attempts < NAME_ATTEMPTS => {
                        attempts += 1;
                        object = prepared(draft.clone())?;
                    }
                    _ => return Err(exists(kind, &object, &existing, prefix.is_some())),
                },
                // The namespace, the definition or a quota changed in between, or what was handed out was taken; all are
                // looked at again.
                Inserted::Raced if rounds < ROUNDS_MAX => {
                    rounds += 1;
                    places = self.admit_into_place(kind, &object).await?;
                    object = asked.unwrap_or(object);
                }
                Inserted::Raced => return Err(super::update::too_busy(kind, object.name())),
            }
        }
    }

    /// What the server says about a new object, whatever the client said.
    fn fill_in(&self, rules: &dyn Strategy, object: &mut Object) {
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            object.remove(&["metadata", key]);
        }
        object.set(&["metadata", "uid"], new_uid());
        object.set(&["metadata", "creationTimestamp"], time(self.now()));
        if rules.habits().has_generation {
            object.set(&["metadata", "generation"], 1);
        }
    }

    /// Refuses an object whose namespace or definition is missing or going. The guards hold the answer until it is
    /// written.
    async fn admit_into_place(&self, kind: &'static Kind, object: &Object) -> Result<Vec<Guard>, Status> {
        let definition = self.admit_into_definition(kind).await?;
        let namespace = self.admit_into_namespace(kind, object).await?;
        Ok(definition.into_iter().chain(namespace).collect())
    }

    async fn insert(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        object: &Object,
        mut beside: Beside,
        dry_run: bool,
    ) -> Result<Inserted, Status> {
        let key = Bytes::from(kind.key(object.namespace(), object.name()));
        let value = stored(kind, object);
        if !dry_run {
            beside.guards.push(Guard { key: key.clone(), mod_revision: 0 });
            beside.extend(self.exchange(kind, None, Some(object)));
            if let Commit::Done(revision) = self.put(context, kind, beside, &key, &value).await? {
                return Ok(Inserted::Done(StoredObject::read(kind, value, revision)));
            }
        }
        let (existing, _) = self.shared.store.get(&key).await?;
        Ok(match existing {
            Some(existing) => Inserted::Exists(Current::of(existing).map(|c| c.object).unwrap_or_default()),
            None if dry_run => Inserted::Done(StoredObject::read(kind, value, 0)),
            None => Inserted::Raced,
        })
    }
}

/// A new uid. Its chance comes from the thread's own generator, seeded by the system, which need not be called each time.
fn new_uid() -> String {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
}

/// The object in the form in which it is kept.
pub(super) fn kept(rules: &dyn Strategy, object: Object) -> Object {
    match rules.view() {
        Some(view) => view.kept(object),
        None => object,
    }
}

/// The object in the form in which it is answered.
pub(super) fn shown<'a>(rules: &dyn Strategy, object: &'a Object) -> Cow<'a, Object> {
    match rules.view() {
        Some(view) => Cow::Owned(view.shown(object.clone())),
        None => Cow::Borrowed(object),
    }
}

/// The kind of which what is invalid is told.
pub(super) fn judged_as(kind: &'static Kind, rules: &dyn Strategy) -> &'static Kind {
    rules.view().map_or(kind, View::kept_by)
}

enum Inserted {
    Done(StoredObject),
    /// The name is taken, by this object.
    Exists(Object),
    Raced,
}

fn exists(kind: &'static Kind, object: &Object, existing: &Object, generated: bool) -> Status {
    let mut status = Status::already_exists(kind, object.name());
    if generated {
        status.message =
            format!("{}, the server was not able to generate a unique name for the object", status.message);
        status.retry_after_seconds = 1;
    } else if existing.is_terminating() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    debug_assert_eq!(status.reason, Reason::AlreadyExists);
    status
}

/// The prefix, if the object wants a name made for it.
fn generated_prefix(object: &Object) -> Option<String> {
    let prefix = object.text(&["metadata", "generateName"]);
    (object.name().is_empty() && !prefix.is_empty()).then(|| prefix.to_owned())
}

pub(super) fn generated_name(prefix: &str) -> String {
    let mut end = prefix.len().min(NAME_PREFIX_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut rng = rand::rng();
    let suffix = (0..NAME_SUFFIX).map(|_| char::from(NAME_ALPHABET[rng.random_range(0..NAME_ALPHABET.len())]));
    prefix[..end].chars().chain(suffix).collect()
}
