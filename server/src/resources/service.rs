//! The verbs of `listwatch.v1.Resources`.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use listwatch_proto::resource::{Kind, Status};
use listwatch_proto::v1::{self, resources_server::Resources};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response};

use super::view::Viewer;
use super::{list, log, request, watch};
use crate::auth::Unjudged;
use crate::kubelets::Kubelets;
use crate::registry::{Attributes, Patch, Registry, Target, Written};

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, tonic::Status>> + Send>>;

/// The service.
#[derive(Debug)]
pub(super) struct ResourceService {
    pub(super) registry: Registry,
    /// How kubelets are reached; `None` if the server has nothing to show them.
    pub(super) kubelets: Option<Arc<Kubelets>>,
    /// Cancelled when streams shall end.
    pub(super) stopping: CancellationToken,
}

impl ResourceService {
    /// Where the store stands, at or above what an answer shows.
    fn header(&self, least: i64) -> Option<v1::Header> {
        let revision = self.registry.revision().max(least);
        Some(v1::Header { revision, incarnation: self.registry.incarnation().to_owned() })
    }

    /// What a message names. Who may not even see what is served is told that, and not what is wrong with the name.
    async fn meant(&self, asker: &Unjudged, reference: Option<&v1::ResourceRef>) -> Result<Target, Status> {
        match request::target(&self.registry, reference).await {
            Ok(target) => Ok(target),
            Err(status) => {
                asker.may(&self.registry, &Attributes::path("get", "/apis")).await?;
                Err(status)
            }
        }
    }

    fn written(&self, target: &Target, written: &Written) -> Response<v1::ObjectResponse> {
        let viewer = Viewer::new(&self.registry, target, v1::View::Object);
        let (object, _) = viewer.object(&written.object);
        Response::new(v1::ObjectResponse {
            header: self.header(written.revision),
            object: Some(object),
            warnings: written.warnings.clone(),
            ..v1::ObjectResponse::default()
        })
    }
}

#[tonic::async_trait]
impl Resources for ResourceService {
    async fn discover(
        &self,
        request: Request<v1::DiscoverRequest>,
    ) -> Result<Response<v1::DiscoverResponse>, tonic::Status> {
        request::asker(&request)?.may(&self.registry, &Attributes::path("get", "/apis")).await?;
        let resources = self.registry.kinds().await?.all().map(resource_info).collect();
        Ok(Response::new(v1::DiscoverResponse { header: self.header(0), resources }))
    }

    async fn create(&self, request: Request<v1::CreateRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("create", &made(&target));
        let context = asker.may(&self.registry, &asked).await?;
        let options = request::write_options(&request.field_manager, request.dry_run, request.field_validation)?;
        let written = self.registry.create(&context, &target, &request.json, &options).await?;
        Ok(self.written(&target, &written))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("get", &target);
        let context = asker.may(&self.registry, &asked).await?;
        let view = request::view(request.view)?;
        request::not_negative("min_revision", request.min_revision)?;
        let object = self.registry.get(&context, &target, request.min_revision).await?;
        let viewer = Viewer::new(&self.registry, &target, view);
        let (shown, row) = viewer.object(&object);
        Ok(Response::new(v1::ObjectResponse {
            header: self.header(object.revision()),
            object: Some(shown),
            row,
            columns: viewer.columns(),
            warnings: Vec::new(),
        }))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("list", &target).selecting(&request.field_selector, &request.label_selector);
        let context = asker.may(&self.registry, &asked).await?;
        let viewer = Viewer::new(&self.registry, &target, request::view(request.view)?);
        let options = request::list_options(&request)?;
        Ok(Response::new(list::list(&self.registry, &context, &target, options, &viewer).await?))
    }

    async fn update(&self, request: Request<v1::UpdateRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("update", &target);
        let context = asker.may(&self.registry, &asked).await?;
        let options = request::write_options(&request.field_manager, request.dry_run, request.field_validation)?;
        let written = self.registry.update(&context, &target, &request.json, &options).await?;
        Ok(self.written(&target, &written))
    }

    async fn patch(&self, request: Request<v1::PatchRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("patch", &target);
        let context = asker.may(&self.registry, &asked).await?;
        let options = request::write_options(&request.field_manager, request.dry_run, request.field_validation)?;
        let patch = Patch { kind: request::patch_kind(request.r#type)?, body: request.patch, force: request.force };
        let written = self.registry.patch(&context, &target, &patch, &options).await?;
        Ok(self.written(&target, &written))
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Result<Response<v1::DeleteResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("delete", &target);
        let context = asker.may(&self.registry, &asked).await?;
        let options = request::delete_options(&request)?;
        let deleted = self.registry.delete(&context, &target, &options).await?;
        let (object, _) = Viewer::new(&self.registry, &target, v1::View::Object).object(&deleted.object);
        Ok(Response::new(v1::DeleteResponse {
            header: Some(v1::Header {
                revision: deleted.revision,
                incarnation: self.registry.incarnation().to_owned(),
            }),
            removed: deleted.removed,
            object: Some(object),
            warnings: deleted.warnings,
        }))
    }

    async fn delete_collection(
        &self,
        request: Request<v1::DeleteCollectionRequest>,
    ) -> Result<Response<v1::DeleteCollectionResponse>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("deletecollection", &target);
        let asked = asked.selecting(&request.field_selector, &request.label_selector);
        let context = asker.may(&self.registry, &asked).await?;
        let (list, options) = request::collection_options(&request)?;
        let page = self.registry.delete_collection(&context, &target, &list, &options).await?;
        let items = page.items.iter().map(|item| v1::Object {
            api_version: item.kind().api_version(),
            kind: item.kind().kind.to_owned(),
            namespace: item.namespace().to_owned(),
            name: item.name().to_owned(),
            uid: item.uid().to_owned(),
            revision: item.revision(),
            json: bytes::Bytes::new(),
        });
        Ok(Response::new(v1::DeleteCollectionResponse {
            header: self.header(page.revision),
            continue_token: page.continue_token,
            items: items.collect(),
        }))
    }

    type WatchStream = Answers<v1::WatchResponse>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let target = self.meant(&asker, request.resource.as_ref()).await?;
        let asked = Attributes::of("watch", &target).selecting(&request.field_selector, &request.label_selector);
        let context = asker.may(&self.registry, &asked).await?;
        let view = request::view(request.view)?;
        let options = request::watch_options(&request)?;
        let watch = self.registry.watch(&context, &target, &options).await?;
        let shape = watch::Shape {
            viewer: Viewer::new(&self.registry, &target, view),
            allow_bookmarks: request.allow_bookmarks,
            send_initial_events: request.send_initial_events,
            until_revision: request.until_revision,
        };
        let messages = watch::messages(watch, &self.registry, shape, self.stopping.clone());
        Ok(Response::new(Box::pin(messages)))
    }

    type LogStream = Answers<v1::LogResponse>;

    async fn log(&self, request: Request<v1::LogRequest>) -> Result<Response<Self::LogStream>, tonic::Status> {
        let (asker, request) = (request::asker(&request)?, request.into_inner());
        let kubelets = self.kubelets.as_deref();
        let target = self.meant(&asker, request.resource.as_ref()).await?.with_subresource("log");
        let context = asker.may(&self.registry, &Attributes::of("get", &target)).await?;
        let chunks = log::open(&self.registry, &context, kubelets, &request, self.stopping.clone()).await?;
        Ok(Response::new(Box::pin(chunks)))
    }
}

/// What a create asks for: an object that has no name yet, or a part of one that has.
fn made(target: &Target) -> Target {
    if target.subresource.is_empty() { Target::collection(target.kind, &*target.namespace) } else { target.clone() }
}

fn resource_info(kind: &'static Kind) -> v1::ResourceInfo {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    v1::ResourceInfo {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
        singular: kind.singular.to_owned(),
        short_names: texts(kind.short_names),
        namespaced: kind.namespaced,
        verbs: texts(kind.verbs()),
        subresources: texts(kind.subresources),
        categories: texts(kind.categories),
    }
}
