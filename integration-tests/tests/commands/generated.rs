//! Commands that make objects up from flags, and what they are asked with.

use listwatch_integration_tests::Server;

use crate::shell::Shell;

#[test]
fn objects_are_made_up_from_flags() {
    let server = Server::start(&["--disable-admission-plugins=ServiceAccount"]).expect("a server");
    let shell = Shell { server: &server };
    runs_and_exposes(&shell);
    generators(&shell);
    server_side(&shell);
    asked_of_the_server(&shell);
}

fn runs_and_exposes(shell: &Shell<'_>) {
    shell.check("run bat --image=x:1 --port=80 --expose", "", "service/bat created\npod/bat created\n");
    let bare = "run cat --image=x:1 --env=A=1 --restart=Never --dry-run=client -o jsonpath={.spec} -- a --flag";
    let spec = "{\"containers\":[{\"args\":[\"a\",\"--flag\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"}],\"image\":\"x:1\",\"name\":\
                \"cat\",\"resources\":{}}],\"dnsPolicy\":\"ClusterFirst\",\"restartPolicy\":\"Never\"}";
    shell.check(bare, "", spec);
    shell.refused("run emu", "", "error: required flag(s) \"image\" not set", 1);
    shell.check("expose pod bat --name=owl --port=81 --target-port=http", "", "service/owl exposed\n");
    shell.check("get svc owl -o jsonpath={.spec.selector}{.spec.ports[0].targetPort}", "", "{\"run\":\"bat\"}http");
    shell.check("create deploy web --image=x:1 --replicas=0", "", "deployment.apps/web created\n");
    shell.check("autoscale deploy web --max=3 --cpu=70%", "", "horizontalpodautoscaler.autoscaling/web autoscaled\n");
    shell.check("get hpa web -o go-template={{.spec.maxReplicas}}", "", "3");
}

fn generators(shell: &Shell<'_>) {
    shell.check("create secret generic s --from-literal=p=w", "", "secret/s created\n");
    shell.check("get secret s -o go-template={{.data.p|base64decode}}", "", "w");
    shell.check("create svc clusterip v --tcp=80:x:y", "", "service/v created\n");
    shell.check("create quota q --hard=pods=9", "", "resourcequota/q created\n");
    shell.check(
        "create role r --verb=get,list --resource=pods,deploy",
        "",
        "role.rbac.authorization.k8s.io/r created\n",
    );
    let described = "Name:         r\nLabels:       <none>\nAnnotations:  <none>\nPolicyRule:\n  Resources         \
                     Non-Resource URLs  Resource Names  Verbs\n  ---------         -----------------  --------------  \
                     -----\n  pods              []                 []              [get list]\n  deployments.apps  \
                     []                 []              [get list]\n";
    shell.check("describe role r", "", described);
    shell.check("create pdb p --selector=a=b --max-unavailable=30%", "", "poddisruptionbudget.policy/p created\n");
    let usage = "error: exactly one NAME is required, got 2\nSee 'lw create configmap -h' for help and examples";
    shell.refused("create configmap a b", "", usage, 1);
}

fn server_side(shell: &Shell<'_>) {
    let map =
        |value: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: bin}}, data: {{red: '{value}'}}}}");
    shell.check("apply --server-side -f -", &map("1"), "configmap/bin serverside-applied\n");
    let (_, err, code) = shell.run("apply --server-side --field-manager=other -f -", &map("2"));
    assert_eq!(code, 1);
    assert!(err.starts_with("error: Apply failed with 1 conflict: conflict with \"kubectl\": .data.red\n"), "{err}");
    let forced = "apply --server-side --field-manager=other --force-conflicts -f -";
    shell.check(forced, &map("2"), "configmap/bin serverside-applied\n");
    shell.check("replace -f -", &map("3"), "configmap/bin replaced\n");
    shell.check("get cm bin -o jsonpath={.data.red}", "", "3");
}

fn asked_of_the_server(shell: &Shell<'_>) {
    shell.check("get --raw /readyz", "", "ok");
    shell.check("auth can-i create pods", "", "yes\n");
    assert_eq!(shell.run("auth can-i list pods --as=nobody", ""), ("no\n".to_owned(), String::new(), 1));
    let forbidden = "Error from server (Forbidden): pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API \
                     group \"\" in the namespace \"default\"";
    shell.refused("get pods --as=nobody", "", forbidden, 1);
    shell.check("-n kube-system get cm --ignore-not-found=true nothing", "", "");
    shell.refused("gett pods", "", "error: unknown command \"gett\" for \"lw\"\n\nDid you mean this?\n\tset\n\tget", 1);
    shell.refused("get pods --colour", "", "error: unknown flag: --colour\nSee 'lw get --help' for usage.", 1);
}
