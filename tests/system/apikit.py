# SPDX-License-Identifier: Apache-2.0
"""A document of an API (api/*.yaml) as something that answers are held against: no member that does
not stand there, none missing that must be there, and in the end none that never came.
"""
import re
from pathlib import Path

import yaml

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "null": type(None)}


class Document:
    def __init__(self, path):
        self.api = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        self.seen = {}  # place in the document: members of answers that were held against it

    def resolve(self, schema):
        """One schema, without references; the members of allOf together."""
        whole = {}
        for part in [schema, *schema.get("allOf", [])]:
            if "$ref" in part:
                name = part["$ref"]
                at = self.api
                for step in name[2:].split("/"):
                    at = at[step]
                part = {**self.resolve(at), "place": name}
            for key, value in part.items():
                if key == "properties":
                    whole[key] = {**whole.get(key, {}), **value}
                elif key == "required":
                    whole[key] = [*whole.get(key, []), *value]
                elif key not in ("allOf", "$ref"):
                    whole[key] = value
        return whole

    def schema(self, method, path, status):
        answer = self.resolve(self.api["paths"][path][method]["responses"][str(status)])
        return answer["content"]["application/json"]["schema"]

    def wrong(self, value, schema, place=""):
        """What of the value is not as written, as texts."""
        schema = self.resolve(schema)
        place = schema.get("place", place)
        types = schema.get("type", [])
        types = types if isinstance(types, list) else [types]
        if types and not any(isinstance(value, TYPES[t]) for t in types):
            return [f"{place}: {value!r} is not {types}"]
        if "const" in schema and value != schema["const"]:
            return [f"{place}: {value!r} is not {schema['const']!r}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{place}: {value!r} is not one of {schema['enum']}"]
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return [f"{place}: {value!r} is not like {schema['pattern']}"]
        if isinstance(value, list):
            return [x for v in value for x in self.wrong(v, schema["items"], place + "[]")]
        if isinstance(value, dict):
            return self._wrong_members(value, schema, place)
        return []

    def _wrong_members(self, value, schema, place):
        written = schema.get("properties", {})
        seen = self.seen.setdefault(place, (set(), set(written)))[0]
        seen.update(value)
        found = [f"{place}: {k} is not written" for k in value if k not in written]
        found += [f"{place}: {k} is missing" for k in schema.get("required", []) if k not in value]
        for k in written.keys() & value.keys():
            found += self.wrong(value[k], written[k], f"{place}.{k}")
        return found

    def unseen(self):
        """Members that are written and that no answer had."""
        return sorted(f"{place}.{k}" for place, (seen, written) in self.seen.items()
                      for k in written - seen)
