//! The verbs on objects of one kind.

use std::marker::PhantomData;

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_proto::v1::{self, FieldValidation, ResourceRef, View};
use serde::Serialize;
use serde_json::{Value, json};
use tonic::Streaming;

use super::lanes::Seat;
use super::{
    Cached, Client, Decode, DeleteParams, Error, ListParams, LogParams, Patch, Resource, Watch, WatchParams,
    WriteParams, own_writes,
};

/// How many objects a page of a list holds: upstream's reflector asks for as many.
const PAGE: i64 = 500;

/// Typed access to one kind, in every namespace. Cheap to clone.
///
/// Cancelling a write (dropping its future) may leave it done or not done, as with any network call.
pub struct Api<T> {
    client: Client,
    kind: &'static Kind,
    typed: PhantomData<fn() -> T>,
}

/// A whole collection as of one revision.
#[derive(Debug)]
pub struct List<T> {
    /// Of the snapshot: a watch from here misses nothing.
    pub revision: i64,
    /// The history the revision belongs to.
    pub incarnation: String,
    /// In order of namespace and name.
    pub items: Vec<Cached<T>>,
}

/// What became of a delete.
#[derive(Debug)]
pub struct Deleted<T> {
    /// Gone; else it is marked and goes later.
    pub removed: bool,
    /// As it was last stored, if the server says.
    pub object: Option<Cached<T>>,
}

/// A container's log, in pieces as it is written.
pub struct LogStream {
    stream: Streaming<v1::LogResponse>,
    _seat: Seat,
}

impl LogStream {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.stream.message().await.map_err(Error::from_grpc)?.map(|m| m.data))
    }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api { client: self.client.clone(), kind: self.kind, typed: PhantomData }
    }
}

impl<T: Resource> Api<T> {
    /// The kind that `T` stands for.
    pub fn new(client: &Client) -> Self {
        Self::of_kind(client, T::kind())
    }
}

impl<T> Api<T> {
    /// Objects of this kind, read into `T`: `Api::<Object>` for any kind, or a slim type of the program's own.
    pub fn of_kind(client: &Client, kind: &'static Kind) -> Self {
        Api { client: client.clone(), kind, typed: PhantomData }
    }

    /// The kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// The client it calls through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn object_ref(&self, key: &ObjectKey, subresource: &str) -> ResourceRef {
        ResourceRef { subresource: subresource.to_owned(), ..self.kind.reference(&key.namespace, &key.name) }
    }

    fn wrote(&self, revision: i64) {
        own_writes::note(self.kind, revision);
    }
}

impl<T: Decode> Api<T> {
    /// Reads one object, as it now is.
    pub async fn get(&self, key: &ObjectKey) -> Result<Cached<T>, Error> {
        let request =
            v1::GetRequest { resource: Some(self.object_ref(key, "")), min_revision: 0, view: View::Object as i32 };
        self.object_of(self.client.get_wire(request).await?)
    }

    fn object_of(&self, answer: v1::ObjectResponse) -> Result<Cached<T>, Error> {
        self.client.warn(&answer.warnings);
        Cached::from_wire(answer.object.ok_or(Error::Incomplete("the object"))?)
    }

    /// Reads one object; `None` if it does not exist.
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<Cached<T>>, Error> {
        match self.get(key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a whole collection, page by page, all from one snapshot. When the snapshot expires between two pages the
    /// error is [`Error::is_expired`].
    pub async fn list(&self, params: &ListParams) -> Result<List<T>, Error> {
        let mut list = List { revision: 0, incarnation: String::new(), items: Vec::new() };
        let mut continue_token = String::new();
        loop {
            let request = v1::ListRequest {
                resource: Some(self.kind.reference(&params.namespace, "")),
                label_selector: params.label_selector.clone(),
                field_selector: params.field_selector.clone(),
                limit: PAGE,
                min_revision: if continue_token.is_empty() { params.min_revision } else { 0 },
                continue_token,
                exact_revision: 0,
                view: View::Object as i32,
            };
            let page = self.client.list_wire(request).await?;
            list.revision = page.revision;
            list.incarnation = page.header.unwrap_or_default().incarnation;
            for wire in page.items {
                list.items.push(Cached::from_wire(wire)?);
            }
            if page.continue_token.is_empty() {
                return Ok(list);
            }
            continue_token = page.continue_token;
        }
    }

    /// Opens a watch.
    pub async fn watch(&self, params: &WatchParams) -> Result<Watch<T>, Error> {
        let request = v1::WatchRequest {
            resource: Some(self.kind.reference(&params.namespace, &params.name)),
            label_selector: params.label_selector.clone(),
            field_selector: params.field_selector.clone(),
            start_revision: params.start_revision,
            incarnation: params.incarnation.clone(),
            send_initial_events: params.send_initial_events,
            allow_bookmarks: true,
            until_revision: params.until_revision,
            progress_interval_ms: i64::try_from(params.progress_interval.as_millis()).unwrap_or(i64::MAX),
            view: View::Object as i32,
        };
        self.client.watch_wire(request).await.map(Watch::new)
    }

    /// Changes one object.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<Cached<T>, Error> {
        self.patch_with(key, "", patch, &WriteParams::default()).await
    }

    /// Changes one object's status.
    pub async fn patch_status(&self, key: &ObjectKey, patch: &Patch) -> Result<Cached<T>, Error> {
        self.patch_with(key, "status", patch, &WriteParams::default()).await
    }

    /// Changes one object or what one of its subresources owns.
    pub async fn patch_with(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Patch,
        params: &WriteParams,
    ) -> Result<Cached<T>, Error> {
        self.object_of(self.patch_wire(key, subresource, patch, params).await?)
    }

    async fn patch_wire(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Patch,
        params: &WriteParams,
    ) -> Result<v1::ObjectResponse, Error> {
        let (patch_type, body) = patch.wire();
        let request = v1::PatchRequest {
            resource: Some(self.object_ref(key, subresource)),
            r#type: patch_type as i32,
            patch: encode(body)?,
            field_manager: params.field_manager.clone(),
            force: patch.is_forced(),
            dry_run: params.dry_run,
            field_validation: params.field_validation as i32,
        };
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.patch(r).await }).await?;
        self.note_write(&answer);
        Ok(answer)
    }

    /// Deletes one object: at once, or marked and going later, as its kind and finalizers will.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> Result<Deleted<T>, Error> {
        let request = params.wire(self.object_ref(key, ""));
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.delete(r).await }).await?;
        let stored = answer.object.as_ref().map_or(0, |o| o.revision);
        // A removal leaves no object whose revision could be waited for: the header tells the removal's own.
        self.wrote(if answer.removed { answer.header.map_or(stored, |h| h.revision) } else { stored });
        let object = answer.object.map(Cached::from_wire).transpose()?;
        Ok(Deleted { removed: answer.removed, object })
    }

    /// Reads the scale subresource of one object: how many replicas are wanted, and of what.
    pub async fn get_scale(&self, key: &ObjectKey) -> Result<Cached<Object>, Error> {
        let resource = Some(self.object_ref(key, "scale"));
        let request = v1::GetRequest { resource, min_revision: 0, view: View::Object as i32 };
        let answer = self.client.get_wire(request).await?;
        Cached::from_wire(answer.object.ok_or(Error::Incomplete("the scale"))?)
    }

    /// Sets the number of replicas through the scale subresource.
    pub async fn scale(&self, key: &ObjectKey, replicas: i32) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch_wire(key, "scale", &patch, &WriteParams::default()).await.map(drop)
    }

    fn note_write(&self, answer: &v1::ObjectResponse) {
        self.wrote(answer.object.as_ref().map_or(0, |o| o.revision));
    }
}

impl<T: Decode + Serialize> Api<T> {
    /// Creates an object in the namespace that its metadata name; the server fills in the name from `generateName`.
    pub async fn create(&self, object: &T) -> Result<Cached<T>, Error> {
        self.create_with(object, &WriteParams::default()).await
    }

    /// Creates what a subresource takes (`serviceaccounts/token`); the answer is of the subresource's own kind.
    pub async fn create_part(&self, key: &ObjectKey, subresource: &str, object: &T) -> Result<Cached<T>, Error> {
        let value = serde_json::to_value(object).map_err(Error::Encode)?;
        let request = v1::CreateRequest {
            resource: Some(self.object_ref(key, subresource)),
            json: encode(&value)?,
            ..v1::CreateRequest::default()
        };
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.create(r).await }).await?;
        self.object_of(answer)
    }

    /// Creates an object.
    pub async fn create_with(&self, object: &T, params: &WriteParams) -> Result<Cached<T>, Error> {
        let value = serde_json::to_value(object).map_err(Error::Encode)?;
        let request = v1::CreateRequest {
            resource: Some(self.kind.reference(metadata(&value, "namespace"), "")),
            json: encode(&value)?,
            field_manager: params.field_manager.clone(),
            dry_run: params.dry_run,
            field_validation: params.field_validation as i32,
        };
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.create(r).await }).await?;
        self.note_write(&answer);
        self.object_of(answer)
    }

    /// Replaces an object; only its own version when its metadata hold a resourceVersion. A typed `T` drops fields it
    /// does not know: patch, or use `Api<Object>`, where that matters.
    pub async fn update(&self, object: &T) -> Result<Cached<T>, Error> {
        self.update_with(object, "", &WriteParams::default()).await
    }

    /// Replaces an object's status.
    pub async fn update_status(&self, object: &T) -> Result<Cached<T>, Error> {
        self.update_with(object, "status", &WriteParams::default()).await
    }

    /// Replaces an object or what one of its subresources owns.
    pub async fn update_with(&self, object: &T, subresource: &str, params: &WriteParams) -> Result<Cached<T>, Error> {
        let value = serde_json::to_value(object).map_err(Error::Encode)?;
        let key = ObjectKey::new(metadata(&value, "namespace"), metadata(&value, "name"));
        let request = v1::UpdateRequest {
            resource: Some(self.object_ref(&key, subresource)),
            json: encode(&value)?,
            field_manager: params.field_manager.clone(),
            dry_run: params.dry_run,
            field_validation: params.field_validation as i32,
        };
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.update(r).await }).await?;
        self.note_write(&answer);
        self.object_of(answer)
    }
}

/// What only pods have.
impl<T> Api<T> {
    /// Asks for a pod to go, as far as disruption budgets let it; the server answers too many requests otherwise.
    pub async fn evict(&self, key: &ObjectKey) -> Result<(), Error> {
        self.evict_with(key, None, false).await
    }

    /// The same with seconds given to end (`None`: the pod's own), and perhaps everything but doing it.
    pub async fn evict_with(&self, key: &ObjectKey, grace: Option<i64>, dry_run: bool) -> Result<(), Error> {
        let mut eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": key.namespace, "name": key.name},
        });
        if let Some(seconds) = grace {
            eviction["deleteOptions"] = json!({"gracePeriodSeconds": seconds});
        }
        if dry_run {
            eviction["deleteOptions"]["dryRun"] = json!(["All"]);
        }
        let request = v1::CreateRequest {
            resource: Some(self.object_ref(key, "eviction")),
            json: encode(&eviction)?,
            field_manager: String::new(),
            dry_run,
            field_validation: FieldValidation::Strict as i32,
        };
        let mut stub = self.client.resources();
        self.client.write(request, |r| async move { stub.create(r).await }).await.map(drop)
    }

    /// Binds a pod to a node. A uid makes sure that it is this pod and not one made anew under its name.
    pub async fn bind(&self, key: &ObjectKey, uid: &str, node: &str) -> Result<(), Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let request = v1::CreateRequest {
            resource: Some(self.object_ref(key, "binding")),
            json: encode(&binding)?,
            field_manager: String::new(),
            dry_run: false,
            field_validation: FieldValidation::Strict as i32,
        };
        let mut stub = self.client.resources();
        let answer = self.client.write(request, |r| async move { stub.create(r).await }).await?;
        // The answer may be a bare Status without an object; the header is never below the write.
        let stored = answer.object.as_ref().map_or(0, |o| o.revision);
        self.wrote(if stored > 0 { stored } else { answer.header.map_or(0, |h| h.revision) });
        Ok(())
    }

    /// Reads a container's log.
    pub async fn log(&self, key: &ObjectKey, params: &LogParams) -> Result<LogStream, Error> {
        let request = v1::LogRequest {
            resource: Some(self.object_ref(key, "log")),
            container: params.container.clone(),
            follow: params.follow,
            previous: params.previous,
            tail_lines: params.tail_lines,
            since_seconds: params.since_seconds,
            timestamps: params.timestamps,
            limit_bytes: params.limit_bytes,
        };
        let (mut stub, seat) = self.client.streaming();
        let stream = self.client.open(request, |r| async move { stub.log(r).await }).await?;
        Ok(LogStream { stream, _seat: seat })
    }
}

/// An object, to be written by a program that knows no type for it.
impl Api<Object> {
    /// Access to the objects of the kind that this object says it is of; `None` if that is not served.
    pub fn for_object(client: &Client, object: &Object) -> Option<Self> {
        object.kind().map(|kind| Api::of_kind(client, kind))
    }
}

fn encode(value: &Value) -> Result<Bytes, Error> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Error::Encode)
}

fn metadata<'a>(value: &'a Value, field: &str) -> &'a str {
    value["metadata"][field].as_str().unwrap_or_default()
}
