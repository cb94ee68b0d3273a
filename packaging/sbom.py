# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a package, as CycloneDX 1.5 JSON."""

import datetime
import hashlib
import json
import uuid

_SPDX_PREFIX = "LicenseRef-"


def _license(expression):
    if expression.startswith(_SPDX_PREFIX):
        return [{"license": {"name": expression[len(_SPDX_PREFIX) :].replace("-", " ")}}]
    if " " in expression:
        return [{"expression": expression}]
    return [{"license": {"id": expression}}]


def _entry(component, files):
    entry = {
        "type": {"library": "library", "compiled": "library", "data": "data"}[component.how],
        "bom-ref": f"{component.name}@{component.version}",
        "name": component.name,
        "version": component.version,
        "licenses": _license(component.license),
        "purl": component.purl,
        "properties": [{"name": "tenon:use", "value": component.how}],
    }
    if files:
        entry["components"] = [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": sha256}]}
            for name, sha256 in files
        ]
    return entry


def sbom_text(version, commit, epoch, carried):
    """`carried` maps each component to its files: (path in the package, SHA-256)."""
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    entries = [
        _entry(component, files)
        for component, files in sorted(
            carried.items(), key=lambda item: (item[0].name, item[0].how)
        )
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": f"tenon@{version}",
                "name": "tenon",
                "version": version,
                "licenses": _license("Apache-2.0"),
                "properties": [{"name": "tenon:commit", "value": commit}],
            },
        },
        "components": entries,
        "dependencies": [
            {"ref": f"tenon@{version}", "dependsOn": [entry["bom-ref"] for entry in entries]}
        ],
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
    document["serialNumber"] = f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}"
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
